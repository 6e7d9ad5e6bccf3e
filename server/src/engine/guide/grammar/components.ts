/** Groups rules that call each other, called ones first. Source: Tarjan, "Depth-first search and linear graph algorithms" (1972). */

interface Visit {
  readonly index: number;
  low: number;
  isOpen: boolean;
}

/**
 * Strongly connected components of what is reached from `root`; each lists its members in the order of their discovery.
 * @param next names that a name leads to
 */
export function components(root: string, next: (name: string) => readonly string[]): readonly (readonly string[])[] {
  const visits = new Map<string, Visit>();
  const open: string[] = [];
  const found: string[][] = [];
  const visit = (name: string): Visit => {
    const own: Visit = { index: visits.size, low: visits.size, isOpen: true };
    visits.set(name, own);
    open.push(name);
    for (const each of next(name)) {
      const known = visits.get(each);
      if (known === undefined) own.low = Math.min(own.low, visit(each).low);
      else if (known.isOpen) own.low = Math.min(own.low, known.index);
    }
    if (own.low === own.index) found.push(close(open, name, visits));
    return own;
  };
  visit(root);
  return found;
}

function close(open: string[], name: string, visits: ReadonlyMap<string, Visit>): string[] {
  const members = open.splice(open.indexOf(name));
  for (const member of members) {
    const visit = visits.get(member);
    if (visit !== undefined) visit.isOpen = false;
  }
  return members;
}
