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

export async function copy(text) {
  if (!navigator.clipboard) return;
  await navigator.clipboard.writeText(text);
  announce("Copied the command");
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
  const cell = (content) => element("td", {}, content);
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
