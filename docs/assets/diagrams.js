// Loads the diagram library from the site itself, on pages with a diagram only. It must be present before the theme starts,
// because the theme loads the library from a public host otherwise: hence a script that the parser waits for.
if (document.querySelector(".mermaid")) {
  const library = new URL("mermaid.min.js", document.currentScript.src).href;
  document.write(`<script src="${library}"></script>`);
}
