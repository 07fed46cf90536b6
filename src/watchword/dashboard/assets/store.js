// Holds the rows that the server sent, and follows its changes.

import { compareNames } from "./format.js";

export class Store extends EventTarget {
  constructor() {
    super();
    this.rows = new Map();
    this.healths = [];
    this.events = [];
    this.unseen = {};
    this.viewer = null;
    this.state = "connecting";
    this.version = 0;
    this.clock = { server: Date.now() / 1000, local: performance.now() };
    this.sorted = new Map();
  }

  follow() {
    const source = new EventSource("/api/live");
    source.addEventListener("board", (message) => this.receive(JSON.parse(message.data), true));
    source.addEventListener("update", (message) => this.receive(JSON.parse(message.data), false));
    source.addEventListener("end", () => {
      source.close();
      location.reload();
    });
    source.addEventListener("error", () => {
      this.state = source.readyState === EventSource.CLOSED ? "closed" : "reconnecting";
      this.dispatchEvent(new Event("state"));
    });
  }

  receive(update, whole) {
    if (whole) this.rows = new Map();
    for (const id of update.gone) this.rows.delete(id);
    for (const [id, row] of Object.entries(update.put)) {
      row.id = id;
      row.text = searchText(row);
      this.rows.set(id, row);
    }
    this.healths = update.healths ?? this.healths;
    this.viewer = update.viewer ?? this.viewer;
    this.events = update.events;
    this.unseen = update.unseen;
    this.clock = { server: update.now, local: performance.now() };
    this.state = "live";
    if (whole || update.gone.length || Object.keys(update.put).length) {
      this.version += 1;
      this.sorted.clear();
    }
    this.dispatchEvent(new Event("state"));
    this.dispatchEvent(new Event("change"));
  }

  now() {
    return this.clock.server + (performance.now() - this.clock.local) / 1000;
  }

  // Rows of one table, what needs attention first, then what ends first.
  table(name) {
    if (!this.sorted.has(name)) {
      this.sorted.set(name, [...this.rows.values()].filter((row) => row.table === name).sort(byAttention));
    }
    return this.sorted.get(name);
  }

  problems() {
    if (!this.sorted.has("problems")) {
      const found = [...this.rows.values()].filter((row) => this.healths[row.health]?.attention);
      this.sorted.set("problems", found.sort(byAttention));
    }
    return this.sorted.get("problems");
  }
}

export function describe(row) {
  if (row.table === "cluster") return `cluster ${row.name}`;
  if (row.table === "add-on") return `add-on ${row.name} on ${row.cluster}`;
  return `${row.kind} of ${holderOf(row)}`;
}

export function holderOf(row) {
  return row.cluster && !row.holder.includes(row.cluster) ? `${row.holder} on ${row.cluster}` : row.holder;
}

export function clusterOf(row) {
  return row.table === "cluster" ? row.name : row.cluster;
}

function byAttention(one, other) {
  return (
    one.health - other.health ||
    compareEnds(one, other) ||
    compareNames(one.name ?? one.holder, other.name ?? other.holder) ||
    compareNames(one.id, other.id)
  );
}

function compareEnds(one, other) {
  const [first, second] = [one.expires ?? Infinity, other.expires ?? Infinity];
  return first === second ? 0 : first - second;
}

function searchText(row) {
  return [row.name, row.kind, row.holder, row.cluster, row.subject, row.note, row.driver, row.version]
    .filter(Boolean)
    .join(" ")
    .toLowerCase();
}
