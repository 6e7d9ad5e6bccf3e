/** Objects that are costly to make, each once as long as somebody uses it. Source: ECMAScript 2021, WeakRef objects. */
export class SharedObjects<T extends object> {
  readonly #pending = new Map<string, Promise<T>>();
  readonly #made = new Map<string, WeakRef<T>>();

  /** That of `key`, made when there is none. A failure is not remembered. */
  async get(key: string, make: () => Promise<T>): Promise<T> {
    const known = this.#made.get(key)?.deref();
    if (known !== undefined) return known;
    const pending = this.#pending.get(key) ?? this.#make(key, make);
    return await pending;
  }

  #make(key: string, make: () => Promise<T>): Promise<T> {
    for (const [each, reference] of this.#made) if (reference.deref() === undefined) this.#made.delete(each);
    const pending = make()
      .then((made) => {
        this.#made.set(key, new WeakRef(made));
        return made;
      })
      .finally(() => this.#pending.delete(key));
    this.#pending.set(key, pending);
    return pending;
  }
}
