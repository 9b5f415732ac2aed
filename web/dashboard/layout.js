// Where nodes stand: in layers, so that a chain of nodes reads as a chain.
//
//   1. layers: how many links a node is away from one end of the longest way
//   2. links over several layers get a place in each layer that they cross
//   3. order within layers: by the middle of a node's neighbours, back and forth
//   4. places: the longest way straight, the others as near to their neighbours as
//      the order lets them be
//
// Layers go to the right where there is room and downwards where there is not.
// The same network always gives the same picture.

export const BOX = { width: 142, height: 48 };
/** Room between layers (at least, at most), and between nodes of a layer. */
const GAP = {
  right: { layer: [84, 150], within: 34, through: 26 },
  down: { layer: [62, 62], within: 22, through: 40 },
};
const SWEEPS = 12;

/**
 * `nodes`: names. `links`: [name, a, b, loose]; a loose one, a tunnel over others,
 * gets its way but no say in where nodes stand. `room`: the width there is. Gives
 * places, ways of links, the size.
 */
export function layout(nodes, links, direction, room) {
  const parts = components(nodes, links);
  const result = { places: new Map(), ways: new Map(), width: 0, height: 0 };
  for (const part of parts) add(result, one(part, direction, room), direction);
  return result;
}

/** Puts one part beside or below those that are there. */
function add(result, part, direction) {
  const down = direction === "right";
  const [dx, dy] = down ? [0, result.height] : [result.width, 0];
  const shift = ([x, y]) => [x + dx, y + dy];
  for (const [name, at] of part.places) result.places.set(name, shift(at));
  for (const [name, points] of part.ways) result.ways.set(name, points.map(shift));
  result.width = Math.max(result.width, dx + part.width);
  result.height = Math.max(result.height, dy + part.height);
}

function components(nodes, links) {
  const near = neighbours(nodes, links);
  const seen = new Set();
  const parts = [];
  for (const start of nodes) {
    if (seen.has(start)) continue;
    const names = [...distances(start, near).keys()];
    names.forEach((name) => seen.add(name));
    const inside = new Set(names);
    parts.push({
      nodes: nodes.filter((n) => inside.has(n)),
      links: links.filter(([, a, b]) => inside.has(a) && inside.has(b)),
    });
  }
  return parts;
}

function neighbours(nodes, links) {
  const near = new Map(nodes.map((n) => [n, []]));
  for (const [, a, b, loose] of links) {
    if (a === b || loose) continue;
    near.get(a)?.push(b);
    near.get(b)?.push(a);
  }
  return near;
}

/** Breadth first: name -> how many links away. */
function distances(start, near) {
  const found = new Map([[start, 0]]);
  for (const name of found.keys()) {
    for (const next of near.get(name) ?? []) {
      if (!found.has(next)) found.set(next, found.get(name) + 1);
    }
  }
  return found;
}

/** The longest way through: the names on it, from that end which is written first. */
function spine(nodes, near) {
  const far = (from) => {
    const found = distances(from, near);
    return nodes.reduce((best, n) => (found.get(n) > found.get(best) ? n : best), from);
  };
  const one = far(nodes[0]);
  const other = far(one);
  const [start, goal] = nodes.indexOf(one) <= nodes.indexOf(other) ? [one, other] : [other, one];
  const back = distances(goal, near);
  const way = [start];
  while (way.at(-1) !== goal) {
    const here = back.get(way.at(-1));
    way.push(near.get(way.at(-1)).find((n) => back.get(n) === here - 1));
  }
  return way;
}

function one({ nodes, links }, direction, room) {
  const near = neighbours(nodes, links);
  const main = spine(nodes, near);
  const depth = distances(main[0], near);
  const layers = [];
  const put = (cell, at) => (layers[at] ??= []).push(cell);
  const cells = new Map();
  for (const name of nodes) {
    const cell = { name, layer: depth.get(name), near: [], at: 0, main: main.includes(name) };
    cells.set(name, cell);
    put(cell, cell.layer);
  }
  const chains = new Map();
  for (const [name, a, b, loose] of links) chains.set(name, chain(cells.get(a), cells.get(b), put, loose));
  for (let sweep = 0; sweep < SWEEPS; sweep += 1) order(layers, sweep % 2 === 0);
  place(layers, direction);
  return measure(layers, cells, chains, direction, room);
}

/** The cells of a link from end to end, with one in each layer that it crosses. */
function chain(from, to, put, loose) {
  const cells = [from];
  const step = Math.sign(to.layer - from.layer);
  for (let at = from.layer + step; step !== 0 && at !== to.layer; at += step) {
    const cell = { name: null, layer: at, near: [], at: 0 };
    put(cell, at);
    cells.push(cell);
  }
  cells.push(to);
  for (let i = 1; i < cells.length; i += 1) {
    if (!loose || cells[i - 1].name === null) cells[i - 1].near.push(cells[i]);
    if (!loose || cells[i].name === null) cells[i].near.push(cells[i - 1]);
  }
  return cells;
}

function order(layers, forward) {
  layers.forEach((layer) => layer.forEach((cell, i) => (cell.order = i)));
  const middle = (cell) => {
    const side = cell.near.filter((n) => (forward ? n.layer < cell.layer : n.layer > cell.layer));
    if (side.length === 0) return cell.order;
    // Halves of a layer compare by their share of it, whatever its length.
    const shares = side.map((n) => ((n.order + 0.5) / layers[n.layer].length) * layers[cell.layer].length - 0.5);
    return shares.reduce((a, b) => a + b, 0) / shares.length;
  };
  for (const layer of forward ? layers : [...layers].reverse()) {
    for (const cell of layer) cell.middle = middle(cell);
    layer.sort((a, b) => a.middle - b.middle || a.order - b.order);
    layer.forEach((cell, i) => (cell.order = i));
  }
}

/** Gives every cell its place across the layers' direction. */
function place(layers, direction) {
  const gap = GAP[direction];
  const size = direction === "right" ? BOX.height : BOX.width;
  const extent = (cell) => (cell.name === null ? gap.through : size);
  const apart = (a, b) => (extent(a) + extent(b)) / 2 + gap.within;
  for (const layer of layers) {
    let at = 0;
    layer.forEach((cell, i) => {
      at += i === 0 ? 0 : apart(layer[i - 1], cell);
      cell.at = at;
    });
    layer.forEach((cell) => (cell.at -= at / 2));
  }
  for (let sweep = 0; sweep < SWEEPS; sweep += 1) {
    for (const layer of sweep % 2 === 0 ? layers : [...layers].reverse()) settle(layer, apart);
  }
}

/** Moves a layer's cells towards their neighbours, in order and apart. */
function settle(layer, apart) {
  const wanted = layer.map((cell) => {
    const others = cell.near.filter((n) => n.layer !== cell.layer);
    return others.length ? others.reduce((sum, n) => sum + n.at, 0) / others.length : cell.at;
  });
  const gap = (i) => apart(layer[i - 1], layer[i]);
  const low = [...wanted];
  const high = [...wanted];
  const main = layer.findIndex((cell) => cell.main);
  if (main >= 0) low[main] = high[main] = 0;
  for (let i = 1; i < layer.length; i += 1) if (i !== main) low[i] = Math.max(low[i], low[i - 1] + gap(i));
  for (let i = layer.length - 2; i >= 0; i -= 1) if (i !== main) high[i] = Math.min(high[i], high[i + 1] - gap(i + 1));
  // Beside the main way each side keeps away from it; without one, the middle of
  // what both ends would have, so that neither is favoured.
  layer.forEach((cell, i) => {
    if (main < 0) cell.at = (low[i] + high[i]) / 2;
    else cell.at = i < main ? high[i] : low[i];
  });
}

function measure(layers, cells, chains, direction, room) {
  const right = direction === "right";
  const gap = GAP[direction];
  const [along, across] = right ? [BOX.width, BOX.height] : [BOX.height, BOX.width];
  const all = layers.flat();
  const low = Math.min(...all.map((c) => c.at));
  const high = Math.max(...all.map((c) => c.at));
  const margin = 10;
  const wanted = (room - 2 * margin - layers.length * along) / Math.max(1, layers.length - 1);
  const between = Math.min(gap.layer[1], Math.max(gap.layer[0], right ? Math.floor(wanted) : 0));
  const point = (cell) => {
    const a = margin + along / 2 + cell.layer * (along + between);
    const b = margin + across / 2 + cell.at - low;
    return right ? [a, b] : [b, a];
  };
  const length = 2 * margin + layers.length * along + (layers.length - 1) * between;
  const width = 2 * margin + across + (high - low);
  return {
    places: new Map([...cells].map(([name, cell]) => [name, point(cell)])),
    ways: new Map([...chains].map(([name, chain]) => [name, chain.map(point)])),
    width: right ? length : width,
    height: right ? width : length,
  };
}
