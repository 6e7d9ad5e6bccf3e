/**
 * Scenes as nereid-tiny knows them: one or two shapes on a plain background, with their captions and their drawing. The same
 * scene and seed give the same pixels.
 */

export const COLORS = {
  red: [220, 40, 40],
  green: [40, 170, 60],
  blue: [50, 80, 220],
  yellow: [240, 210, 40],
  purple: [150, 60, 180],
  orange: [245, 140, 30],
  white: [245, 245, 245],
  black: [25, 25, 25],
};
export const BACKGROUNDS = {
  gray: [128, 128, 128],
  pink: [250, 190, 200],
  cyan: [120, 220, 225],
  brown: [120, 80, 45],
};
export const SHAPES = ["circle", "square", "triangle", "cross"];
export const RELATIONS = ["to the left of", "above"];
export const SIDE = 64;

/** A caption as the model writes it. */
export function sentenceOf(caption) {
  return `${caption[0].toUpperCase()}${caption.slice(1)}.`;
}

/** `{ shapes: [{ color, shape }, …], relation, background }` as a caption. */
export function captionOf({ shapes, relation, background }) {
  const named = shapes.map(({ color, shape }) => `${article(color)} ${shape}`);
  return `${named.join(` ${relation} `)} on ${article(background)} background`;
}

/** Every scene there is: 128 with one shape and 8,192 with two. */
export function* allScenes() {
  const objects = Object.keys(COLORS).flatMap((color) => SHAPES.map((shape) => ({ color, shape })));
  for (const background of Object.keys(BACKGROUNDS)) {
    for (const first of objects) {
      yield { shapes: [first], relation: undefined, background };
      for (const relation of RELATIONS) {
        for (const second of objects) yield { shapes: [first, second], relation, background };
      }
    }
  }
}

/** Red, green and blue of each pixel, with a little noise and shapes that lie and measure a little otherwise each time. */
export function drawScene({ shapes, relation, background }, random) {
  const pixels = new Float64Array(SIDE * SIDE * 3);
  for (let i = 0; i < pixels.length; i++) pixels[i] = BACKGROUNDS[background][i % 3];
  shapes.forEach(({ color, shape }, index) => {
    const [x, y] = placeOf(index, shapes.length === 1 ? undefined : relation);
    const at = { x: x + whole(random, -3, 3), y: y + whole(random, -3, 3), radius: whole(random, 9, 13) };
    paint(pixels, INSIDE[shape], at, COLORS[color]);
  });
  return Uint8Array.from(pixels, (value) =>
    Math.max(0, Math.min(255, Math.round(value + 0.02 * 255 * normal(random)))),
  );
}

/** Numbers from 0 to 1 that depend on the seed alone. */
export function seededRandom(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** The items in another order. */
export function shuffled(items, random) {
  const out = [...items];
  for (let i = out.length - 1; i > 0; i--) {
    const j = Math.floor(random() * (i + 1));
    [out[i], out[j]] = [out[j], out[i]];
  }
  return out;
}

const INSIDE = {
  circle: (dx, dy, r) => dx * dx + dy * dy <= r * r,
  square: (dx, dy, r) => Math.abs(dx) <= r * 0.86 && Math.abs(dy) <= r * 0.86,
  triangle: (dx, dy, r) => dy <= r * 0.8 && dy >= -r + 2 * Math.abs(dx) * 0.9,
  cross: (dx, dy, r) =>
    (Math.abs(dx) <= r * 0.33 && Math.abs(dy) <= r) || (Math.abs(dy) <= r * 0.33 && Math.abs(dx) <= r),
};

function placeOf(index, relation) {
  if (relation === undefined) return [32, 32];
  const along = index === 0 ? 17 : 47;
  return relation === "to the left of" ? [along, 32] : [32, along];
}

function paint(pixels, isInside, { x, y, radius }, color) {
  for (let row = 0; row < SIDE; row++) {
    for (let column = 0; column < SIDE; column++) {
      if (isInside(column - x, row - y, radius)) pixels.set(color, (row * SIDE + column) * 3);
    }
  }
}

function whole(random, least, most) {
  return least + Math.floor(random() * (most - least + 1));
}

function normal(random) {
  return Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());
}

function article(word) {
  return `${"aeiou".includes(word[0]) ? "an" : "a"} ${word}`;
}
