// The page that explains each condition reason and names the next command.

import { commandLine, element, plainTable, section } from "./elements.js";

const NAME = /^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$/; // of a cluster: safe to paste into a shell

let loaded = null;

function load() {
  loaded ??= fetch("/assets/reasons.json").then((answer) => answer.json());
  return loaded;
}

export function reasons(store, parameters, wanted) {
  const search = element("input", { type: "search", id: "search", value: wanted ?? "", autocomplete: "off", placeholder: "Search ( / )", "aria-label": "Search reasons" });
  const list = element("div", { class: "reasons" });
  const page = element(
    "div",
    { class: "page" },
    element("h1", { tabindex: "-1" }, wanted || "Reasons"),
    element("form", { class: "filters", role: "search", onsubmit: (event) => event.preventDefault() }, search),
    list,
  );
  const show = async () => {
    const known = await load();
    const found = wanted && search.value === wanted ? known.filter((each) => each.reason === wanted) : filtered(known, search.value);
    if (!found.length) list.replaceChildren(element("p", {}, `No reason of Watchword matches “${search.value}”. Another program may have set it.`));
    else if (wanted && search.value === wanted) list.replaceChildren(...found.map((each) => detail(each, parameters.get("cluster"))));
    else list.replaceChildren(overviewTable(found));
  };
  search.addEventListener("input", show);
  show();
  return { page, update: () => {}, tick: () => {}, dispose: () => {} };
}

function filtered(known, query) {
  const terms = query.toLowerCase().split(/\s+/).filter(Boolean);
  return known.filter((each) => terms.every((term) => `${each.reason} ${each.subject} ${each.message}`.toLowerCase().includes(term)));
}

function overviewTable(found) {
  const rows = found.map((each) => [
    element("a", { href: `#/reasons/${encodeURIComponent(each.reason)}` }, each.reason),
    each.subject,
    each.tone || "–",
    each.message || "–",
    each.command ? element("code", {}, each.command) : "–",
  ]);
  return plainTable("Reasons", ["Reason", "Condition or event", "Status", "Message", "Next command"], rows);
}

function detail(each, cluster) {
  const command = NAME.test(cluster ?? "") ? each.command.replace("NAME", cluster) : each.command;
  const advice = each.advice.map((part) => (part.code ? element("code", {}, part.code) : part.text));
  return section(
    each.subject,
    element(
      "dl",
      { class: "facts wide" },
      ...fact("Status", each.tone),
      ...fact("Message", each.message || "depends on the case"),
      ...fact("Set by", each.module),
      ...(advice.length ? fact("What to do", ...advice) : []),
    ),
    ...(command ? [element("p", {}, "Next: ", commandLine(command))] : []),
  );
}

function fact(title, ...value) {
  return value[0] ? [element("div", {}, element("dt", {}, title), element("dd", {}, ...value))] : [];
}
