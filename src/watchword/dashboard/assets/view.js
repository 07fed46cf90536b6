// The rows of one table in order: a change costs one pass over them, not a sort.

export class View {
  constructor(holds, key) {
    this.holds = holds;
    this.key = key;
    this.rows = [];
    this.added = new Set();
    this.removed = new Set();
  }

  add(row) {
    if (this.holds(row)) this.added.add(row);
  }

  remove(row) {
    if (!this.added.delete(row) && this.holds(row)) this.removed.add(row);
  }

  list() {
    if (this.added.size || this.removed.size) {
      this.rows = this.merge([...this.added].sort((one, other) => (one[this.key] < other[this.key] ? -1 : 1)));
      this.added.clear();
      this.removed.clear();
    }
    return this.rows;
  }

  merge(added) {
    const merged = [];
    let next = 0;
    for (const row of this.rows) {
      if (this.removed.has(row)) continue;
      while (next < added.length && added[next][this.key] < row[this.key]) merged.push(added[next++]);
      merged.push(row);
    }
    return merged.concat(added.slice(next));
  }
}
