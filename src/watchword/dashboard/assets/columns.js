// The columns of every table.

import { clusterLink, copy, element, healthMark, setText } from "./elements.js";
import { ago, compareNames, instant, renewal, timeLeft } from "./format.js";
import { clusterOf, describe, holderOf } from "./store.js";

const text = (title, read, name = "") => ({
  title,
  class: `text ${name}`,
  key: (one, other) => compareNames(read(one) ?? "", read(other) ?? ""),
  fill: (cell, row) => {
    const shown = read(row) || "–";
    setText(cell, shown);
    cell.title = shown;
  },
});

const moment = (title, read, show, name = "") => ({
  title,
  class: `number ${name}`,
  ticks: true,
  key: (one, other) => (read(one) ?? Number.MAX_VALUE) - (read(other) ?? Number.MAX_VALUE),
  fill: (cell, row, now) => {
    setText(cell, show(row, now));
    cell.title = instant(read(row));
  },
});

const health = (store) => ({
  title: "Health",
  class: "text health-cell",
  key: (one, other) => one.health - other.health,
  fill: (cell, row) => cell.replaceChildren(healthMark(store, row.health)),
});

const cluster = {
  title: "Cluster",
  class: "text cluster-cell",
  key: (one, other) => compareNames(clusterOf(one) ?? "", clusterOf(other) ?? ""),
  fill: (cell, row) => {
    const name = clusterOf(row);
    cell.replaceChildren(name ? clusterLink(name, { tabindex: "-1" }) : "–");
    cell.title = name ?? "";
  },
};

const command = {
  title: "Next command",
  class: "text command-cell",
  fill: (cell, row) => {
    if (!row.command) return setText(cell, "–");
    const code = element("code", {}, row.command);
    const button = element("button", { type: "button", tabindex: "-1", onclick: () => copy(row.command) }, "Copy");
    cell.replaceChildren(...(navigator.clipboard ? [button, code] : [code]));
    cell.title = row.command;
  },
};

const note = text("Note", (row) => row.note, "note");

export function problemColumns(store) {
  return { name: "problems", list: [health(store), text("What", describe, "what"), note, command] };
}

export function credentialColumns(store, axis, { short = false } = {}) {
  const list = [
    health(store),
    text("Credential", (row) => row.kind, "kind"),
    text("Holder", holderOf, "holder"),
    ...(short ? [] : [cluster, text("Subject", (row) => row.subject, "subject")]),
    moment("Issued", (row) => row.issued, (row, now) => ago(row.issued, now)),
    moment("Left", (row) => row.expires, (row, now) => timeLeft(row.expires, now)),
    moment("Renewal", (row) => row.renewal, (row, now) => renewal(row, now)),
    axis.column(),
    note,
  ];
  return { name: short ? "credentials short" : "credentials", list };
}

export function endingColumns(store) {
  return {
    name: "ending",
    list: [
      moment("Ends in", (row) => row.expires, (row, now) => timeLeft(row.expires, now)),
      text("Credential", (row) => row.kind, "kind"),
      text("Holder", holderOf, "holder"),
      moment("Renewal", (row) => row.renewal, (row, now) => renewal(row, now)),
      health(store),
      text("If it is not renewed", (row) => row.consequence, "note"),
    ],
  };
}

export function clusterColumns(store) {
  return {
    name: "clusters",
    list: [
      health(store),
      cluster,
      text("Accepted", (row) => row.accepted, "word"),
      text("Joined", (row) => row.joined, "word"),
      text("Available", (row) => row.available, "word"),
      text("Version", (row) => row.version, "version"),
      note,
      command,
    ],
  };
}

export function addonColumns(store) {
  return {
    name: "add-ons",
    list: [
      health(store),
      text("Add-on", (row) => row.name, "holder"),
      cluster,
      text("Driver", (row) => row.driver, "word"),
      text("Credential", (row) => row.credential, "word"),
      text("Available", (row) => row.available, "word"),
      note,
      command,
    ],
  };
}
