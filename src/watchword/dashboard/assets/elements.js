// Makes elements; text is always text: nothing here parses markup.

export function element(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "class") made.className = value;
    else if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else made.setAttribute(name, value === true ? "" : String(value));
  }
  made.append(...children.filter((child) => child !== undefined && child !== null));
  return made;
}

export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

export function setTitle(node, title) {
  if (node.title !== title) node.title = title;
}

export function clusterLink(name, extra = {}) {
  return element("a", { href: `#/clusters/${encodeURIComponent(name)}`, ...extra }, name);
}

export function reasonLink(reason, cluster) {
  const query = new URLSearchParams({ cluster });
  return element("a", { href: `#/reasons/${encodeURIComponent(reason)}?${query}` }, reason);
}

export function commandLine(command) {
  const line = element("span", { class: "command" }, element("code", {}, command));
  if (navigator.clipboard) line.append(element("button", { type: "button", onclick: () => copy(command) }, "Copy"));
  return line;
}

export async function copy(text, what = "the command") {
  if (!navigator.clipboard) return;
  await navigator.clipboard.writeText(text);
  announce(`Copied ${what}`);
}

const ID = /\b([0-9a-f]{32,}|[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12})\b/;

// Text in which fingerprints and unique ids are short; a click copies the whole one.
export function withShortIds(text) {
  const shown = (part) => element("button", { type: "button", class: "id", title: part, "aria-label": `Copy ${part.slice(0, 8)}`, onclick: () => copy(part, "the id") }, `${part.slice(0, 8)}…`);
  return element("span", {}, ...text.split(ID).map((part, number) => (number % 2 ? shown(part) : part)));
}

export function announce(text) {
  setText(document.getElementById("announcement"), text);
}

let sections = 0;

export function section(title, ...children) {
  sections += 1;
  const id = `section-${sections}`;
  return element("section", { "aria-labelledby": id }, element("h2", { id }, title), ...children);
}

export function plainTable(label, headers, rows) {
  const cell = (content, number) => element("td", { "data-title": headers[number] }, content);
  return element(
    "div",
    { class: "scroll", tabindex: "0", role: "region", "aria-label": label },
    element(
      "table",
      {},
      element("thead", {}, element("tr", {}, ...headers.map((title) => element("th", { scope: "col" }, title)))),
      element("tbody", {}, ...rows.map((row) => element("tr", {}, ...row.map(cell)))),
    ),
  );
}

export function healthMark(store, health, mark = element("span")) {
  setText(mark, store.healths[health]?.label ?? "Unknown");
  mark.className = `health health-${health}`;
  return mark;
}
