// The columns of every table. A cell is filled again for other rows: what it holds is changed, not replaced.

import { clusterLink, copy, element, healthMark, setText, setTitle } from "./elements.js";
import { instant, renewal, sortKey, timeLeft } from "./format.js";
import { clusterOf, describe, holderOf } from "./store.js";

const SUBJECT = /^system:(open-cluster-management|serviceaccount|bootstrap):(cluster:)?/;

const text = (title, read, name = "", { short = (full) => full, none = "–" } = {}) => ({
  title,
  class: `text ${name}`,
  key: (row) => sortKey(read(row) ?? ""),
  fill: (cell, row) => {
    const shown = read(row) || none;
    cell.classList.toggle("none", shown === "");
    setText(cell, short(shown));
    setTitle(cell, shown);
  },
});

const moment = (title, read, show, name = "") => ({
  title,
  class: `number ${name}`,
  ticks: true,
  key: (row) => read(row) ?? Number.MAX_VALUE,
  fill: (cell, row, now) => {
    setText(cell, show(row, now));
    setTitle(cell, instant(read(row)));
  },
});

const health = (store) => ({
  title: "Health",
  class: "text health-cell",
  key: (row) => row.health,
  fill: (cell, row) => {
    const mark = healthMark(store, row.health, cell.firstChild ?? undefined);
    if (mark.parentNode !== cell) cell.append(mark);
  },
});

const cluster = {
  title: "Cluster",
  class: "text cluster-cell",
  key: (row) => sortKey(clusterOf(row) ?? ""),
  fill: (cell, row) => {
    const name = clusterOf(row);
    if (cell.textContent === (name || "–")) return;
    cell.replaceChildren(name ? clusterLink(name, { tabindex: "-1" }) : "–");
    setTitle(cell, name ?? "");
  },
};

const command = {
  title: "Next command",
  class: "text command-cell",
  fill: (cell, row) => {
    if (cell.hasChildNodes() && cell.title === row.command) return;
    cell.title = row.command;
    if (!row.command) return setText(cell, "–");
    const code = element("code", {}, row.command);
    const button = element("button", { type: "button", tabindex: "-1", onclick: () => copy(row.command) }, "Copy");
    cell.replaceChildren(...(navigator.clipboard ? [button, code] : [code]));
  },
};

const note = text("Note", (row) => row.note, "note", { none: "" });
const left = (title) => moment(title, (row) => row.expires, (row, now) => timeLeft(row.expires, now), "left-cell");
const renewed = moment("Renewal", (row) => row.renewal, (row, now) => renewal(row, now), "renewal-cell");
const subject = text("Subject", (row) => row.subject, "subject", { short: (full) => full.replace(SUBJECT, "") });

export function problemColumns(store) {
  return { name: "problems", list: [health(store), text("What", describe, "what"), note, command] };
}

export function credentialColumns(store, axis, { name = "credentials", kinds = true, command: next = false } = {}) {
  const list = [
    health(store),
    ...(kinds ? [text("Credential", (row) => row.kind, "kind")] : []),
    text("Holder", holderOf, "holder"),
    subject,
    left("Left"),
    renewed,
    axis.column(),
    note,
    ...(next ? [command] : []),
  ];
  return { name, list };
}

export function endingColumns(store) {
  return {
    name: "ending",
    list: [
      left("Ends in"),
      text("Credential", (row) => row.kind, "kind"),
      text("Holder", holderOf, "holder"),
      renewed,
      health(store),
      text("If it is not renewed", (row) => row.consequence, "consequence"),
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
