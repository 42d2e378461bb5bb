// How a page looks in the window that it is in: what is cut off, and what is hard to read.
(() => {
const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
const known = new Map();
const channels = (colour) => {
  if (!known.has(colour)) {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    known.set(colour, [...canvas.getImageData(0, 0, 1, 1).data]);
  }
  return known.get(colour);
};
const luminance = (colour) => {
  const [r, g, b] = channels(colour).map((c) => c / 255)
    .map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const opaque = (element) => {
  for (let at = element; at; at = at.parentElement) {
    const colour = getComputedStyle(at).backgroundColor;
    if (channels(colour)[3] === 255) return colour;
  }
  return getComputedStyle(document.body).backgroundColor;
};
const contrasts = new Map();
for (const element of document.querySelectorAll("body *")) {
  const own = [...element.childNodes].some((n) => n.nodeType === 3 && n.data.trim());
  if (!own || !element.checkVisibility() || element.closest("title, script, noscript")) continue;
  const style = getComputedStyle(element);
  const front = element instanceof SVGElement ? style.fill : style.color;
  const back = opaque(element);
  const key = front + " on " + back;
  if (contrasts.has(key)) continue;
  const [high, low] = [luminance(front), luminance(back)].sort((a, b) => b - a);
  contrasts.set(key, { ratio: (high + 0.05) / (low + 0.05), text: element.textContent.slice(0, 40) });
}
const name = (element) => element.tagName + "." + element.className + " " + element.textContent.slice(0, 60);
const clipped = [];
for (const element of document.querySelectorAll("body *")) {
  if (!element.checkVisibility() || element.closest("svg, script, .hidden")) continue;
  // What originals print is as wide as they made it: it scrolls by itself.
  if (element.matches("pre.printed")) continue;
  const box = element.getBoundingClientRect();
  const wide = element.clientWidth > 0 && element.scrollWidth > element.clientWidth + 1;
  if (wide || box.right > innerWidth + 0.5 || box.left < -0.5) clipped.push(name(element));
}
return {
  clipped,
  pale: [...contrasts].filter(([, { ratio }]) => ratio < 4.5)
    .map(([pair, { ratio, text }]) => ratio.toFixed(2) + ", " + pair + ": " + text),
  sideways: document.documentElement.scrollWidth - innerWidth,
  width: innerWidth,
  background: getComputedStyle(document.body).backgroundColor,
};
})()
