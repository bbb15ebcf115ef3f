// A squarified treemap: rectangles with areas in proportion to values, and sides of similar length.

export interface Box<T> {
  item: T;
  x: number;
  y: number;
  width: number;
  height: number;
}

export function treemap<T>(items: T[], valueOf: (item: T) => number, width: number, height: number): Box<T>[] {
  const sorted = items.filter((item) => valueOf(item) > 0).sort((left, right) => valueOf(right) - valueOf(left));
  const total = sorted.reduce((sum, item) => sum + valueOf(item), 0);
  const boxes: Box<T>[] = [];
  if (total <= 0) return boxes;
  const scale = (width * height) / total;
  let [x, y, w, h] = [0, 0, width, height];
  let index = 0;
  while (index < sorted.length) {
    const side = Math.min(w, h);
    const row: T[] = [];
    let area = 0;
    let worst = Infinity;
    while (index + row.length < sorted.length) {
      const next = sorted[index + row.length] as T;
      const nextArea = area + valueOf(next) * scale;
      const ratio = Math.max(...[...row, next].map((item) => aspect(valueOf(item) * scale, nextArea, side)));
      if (ratio > worst) break;
      row.push(next);
      area = nextArea;
      worst = ratio;
    }
    const thickness = area / side;
    let offset = 0;
    for (const item of row) {
      const length = (valueOf(item) * scale) / thickness;
      boxes.push(w >= h ? { item, x, y: y + offset, width: thickness, height: length } : { item, x: x + offset, y, width: length, height: thickness });
      offset += length;
    }
    if (w >= h) [x, w] = [x + thickness, w - thickness];
    else [y, h] = [y + thickness, h - thickness];
    index += row.length;
  }
  return boxes;
}

function aspect(area: number, rowArea: number, side: number): number {
  const thickness = rowArea / side;
  const length = area / thickness;
  return Math.max(thickness / length, length / thickness);
}
