// Holds the rows that the server sent, and follows its changes.

import { sortKey } from "./format.js";
import { View } from "./view.js";

const LATER = "~"; // sorts after every number

export class Store extends EventTarget {
  constructor() {
    super();
    this.rows = new Map();
    this.healths = [];
    this.events = [];
    this.unseen = {};
    this.viewer = null;
    this.state = "connecting";
    this.left = 0; // objects that the server has not sent yet
    this.unconfirmed = new Set(); // rows of a connection before this one
    this.touched = new Set(); // clusters whose rows changed since the page was brought up to date
    this.clock = { server: Date.now() / 1000, local: performance.now() };
    const tables = ["cluster", "add-on", "credential"];
    this.views = new Map(tables.map((name) => [name, new View((row) => row.table === name, "order")]));
    this.views.set("problems", new View((row) => this.healths[row.health]?.attention, "order"));
    this.views.set("ending", new View((row) => row.consequence !== undefined, "endingOrder"));
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

  receive(update, first) {
    this.healths = update.healths ?? this.healths;
    this.viewer = update.viewer ?? this.viewer;
    if (first) this.unconfirmed = new Set(this.rows.keys());
    for (const id of update.gone) this.remove(id);
    for (const [id, row] of Object.entries(update.put)) this.put(id, row);
    this.left = update.left;
    if (!this.left) {
      for (const id of this.unconfirmed) this.remove(id);
      this.unconfirmed.clear();
    }
    if (update.events) this.events = this.resolve(update.events);
    this.unseen = update.unseen ?? this.unseen;
    this.clock = { server: update.now, local: performance.now() };
    this.state = "live";
    this.dispatchEvent(new Event("state"));
    this.dispatchEvent(new Event("change"));
  }

  put(id, row) {
    this.remove(id);
    this.unconfirmed.delete(id);
    row.id = id;
    row.order = attentionOrder(row);
    if (row.consequence !== undefined) row.endingOrder = endingOrder(row);
    this.rows.set(id, row);
    this.touched.add(clusterOf(row));
    for (const view of this.views.values()) view.add(row);
  }

  remove(id) {
    const row = this.rows.get(id);
    if (row === undefined) return;
    this.rows.delete(id);
    this.touched.add(clusterOf(row));
    for (const view of this.views.values()) view.remove(row);
  }

  // Events that were sent before come as their number alone.
  resolve(events) {
    const known = new Map(this.events.map((event) => [event.number, event]));
    return events.map((event) => (typeof event === "number" ? known.get(event) : event));
  }

  now() {
    return this.clock.server + (performance.now() - this.clock.local) / 1000;
  }

  // Rows of one table: what needs attention first, then what ends first.
  table(name) {
    return this.views.get(name).list();
  }

  problems() {
    return this.table("problems");
  }
}

export function describe(row) {
  if (row.table === "cluster") return `cluster ${row.name}`;
  if (row.table === "finding") return `the hub: ${row.name}`;
  if (row.table === "add-on") return `add-on ${row.name} on ${row.cluster}`;
  return `${row.kind} of ${holderOf(row)}`;
}

export function holderOf(row) {
  return row.cluster && !row.holder.includes(row.cluster) ? `${row.holder} on ${row.cluster}` : row.holder;
}

export function clusterOf(row) {
  return row.table === "cluster" ? row.name : row.cluster;
}

// What a search looks through; made once, when a row is first searched.
export function searchText(row) {
  row.text ??= [row.name, row.kind, row.holder, row.cluster, row.subject, row.note, row.driver, row.version]
    .filter(Boolean)
    .join(" ")
    .toLowerCase();
  return row.text;
}

function attentionOrder(row) {
  return `${row.health} ${moment(row.expires)} ${sortKey(row.name ?? row.holder)} ${sortKey(row.id)}`;
}

function endingOrder(row) {
  const group = row.renewalAnnounced ? 2 : row.kind === "join token" ? 1 : 0;
  return `${group} ${moment(row.expires)} ${row.order}`;
}

function moment(seconds) {
  return seconds === null || seconds === undefined ? LATER : String(Math.max(0, seconds)).padStart(12, "0");
}
