// Keeps a page up to date without a reload: what the reader opened, ticked and scrolled to stays.
// Without this, loading it again shows the same.
(() => {
  const EVERY_MS = 1000;
  const live = () => document.getElementById("live");
  if (!live() || !live().hasAttribute("data-going")) return;

  // Which parts of two states of a page are the same: by id, or by the heading, whatever its figures.
  const name = (node) => {
    if (node.nodeType !== Node.ELEMENT_NODE || node.id) return node.id || "";
    if (!node.matches("figure, li, details, tr, .card")) return "";
    const heading = node.querySelector("h3, figcaption, summary, th");
    return heading ? heading.textContent.replace(/[\d.,]+/g, "#") : "";
  };
  const same = (a, b) => a.nodeName === b.nodeName && name(a) === name(b);

  // Makes `old` what `next` is, and keeps every element that is in both.
  const morph = (old, next) => {
    if (old.isEqualNode(next)) return;
    if (old.nodeType !== Node.ELEMENT_NODE) {
      old.data = next.data;
      return;
    }
    for (const { name } of [...old.attributes]) {
      if (!next.hasAttribute(name) && name !== "open") old.removeAttribute(name);
    }
    for (const { name, value } of next.attributes) {
      if (old.getAttribute(name) !== value) old.setAttribute(name, value);
    }
    let at = old.firstChild;
    for (const child of [...next.childNodes]) {
      let match = at;
      while (match && !same(match, child)) match = match.nextSibling;
      if (!match) {
        old.insertBefore(document.importNode(child, true), at);
        continue;
      }
      if (match === at) at = at.nextSibling;
      else old.insertBefore(match, at);
      morph(match, child);
    }
    while (at) {
      const gone = at;
      at = at.nextSibling;
      gone.remove();
    }
  };

  // What the reader looks at stays where it is, whatever grows above.
  const update = (html) => {
    // Its style is here already, and bears a word that this page does not let in.
    const next = new DOMParser().parseFromString(html.replace(/<style.*?<\/style>/s, ""), "text/html");
    const seen = scrollY > 0 && document.elementFromPoint(innerWidth / 2, innerHeight / 3);
    const before = seen && seen.getBoundingClientRect().top;
    for (const part of ["header", "main"]) morph(document.querySelector(part), next.querySelector(part));
    document.title = next.title;
    if (seen && seen.isConnected) scrollBy(0, seen.getBoundingClientRect().top - before);
  };

  const get = async (path) => {
    const answer = await fetch(path, { cache: "no-store", signal: AbortSignal.timeout(30000) });
    if (!answer.ok) throw new Error(answer.statusText);
    return answer;
  };

  const show = (state) => {
    const details = live().querySelector(".state span");
    if (details && details.textContent !== state.details) details.textContent = state.details;
    const bar = live().querySelector("progress");
    if (bar) bar.value = state.done;
  };

  const look = async () => {
    const silent = live().querySelector(".silent");
    try {
      const state = await (await get("state")).json();
      if (state.page !== live().dataset.page) update(await (await get("")).text());
      else if ("details" in state) show(state);
      silent.hidden = true;
    } catch {
      silent.hidden = false;
    }
    // A page that nobody sees costs the machine that measures nothing.
    if (!document.hidden) later();
  };
  let timer;
  const later = (after_ms = EVERY_MS) => {
    clearTimeout(timer);
    if (live().hasAttribute("data-going")) timer = setTimeout(look, after_ms);
  };
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden) later(0);
  });
  later();
})();
