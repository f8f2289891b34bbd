// Making elements, formatting numbers, colours of competitors, and the tooltip.
const NS = document.getElementById("ns").namespaceURI;
const COLOURS = 10;

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  for (const child of children.flat(Infinity)) {
    if (child !== null && child !== undefined && child !== false) node.append(child);
  }
  return node;
}

function h(tag, attributes, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

function s(tag, attributes, ...children) {
  return fill(document.createElementNS(NS, tag), attributes, children);
}

function minus(text) {
  return text.replace(/-/g, "−");
}

// A number with the given decimals, a real minus sign, and a plus sign where differences are meant.
function fixed(value, digits = 3, signed = false) {
  if (value === null || value === undefined) return "–";
  const text = value.toFixed(digits);
  return (signed && value > 0 ? "+" : "") + minus(text);
}

// A number as short as it can be read: for tooltips and ticks.
function short(value) {
  if (value === null || value === undefined) return "–";
  const size = Math.abs(value);
  if (size >= 1e6) return minus((value / 1e6).toPrecision(3).replace(/\.?0+$/, "")) + " M";
  if (size >= 1e4) return minus(Math.round(value / 1e3).toString()) + " k";
  if (size !== 0 && size < 1e-3) return minus(value.toExponential(1));
  return minus(Number(value.toPrecision(4)).toString());
}

// One colour for a name on the whole page: evaluated agents first, then in the order of the standings.
const colourNumbers = new Map();

function assignColours(runs) {
  const names = [...runs.flatMap((run) => run.agents || []), ...runs.flatMap((run) => run.competitors || [])];
  for (const name of names) if (!colourNumbers.has(name)) colourNumbers.set(name, colourNumbers.size);
}

function colour(number) {
  return `var(--c${number % COLOURS})`;
}

function colourOf(name) {
  return colour(colourNumbers.get(name) ?? COLOURS - 3);
}

// Beyond ten names colours repeat; dashes distinguish them.
function dashOf(name) {
  return (colourNumbers.get(name) ?? 0) >= COLOURS ? "7 4" : null;
}

const tip = document.getElementById("tip");

function showTip(event, ...content) {
  tip.replaceChildren(...content);
  tip.hidden = false;
  const { width, height } = tip.getBoundingClientRect();
  const left = event.clientX + 16 + width > innerWidth ? event.clientX - 16 - width : event.clientX + 16;
  tip.style.left = `${Math.max(4, left)}px`;
  tip.style.top = `${Math.max(4, Math.min(event.clientY + 12, innerHeight - height - 6))}px`;
}

function hideTip() {
  tip.hidden = true;
}

function choice(label, options, selected, onChange) {
  const select = h("select", { onchange: () => onChange(select.value) });
  for (const [value, text] of options) select.append(h("option", { value, selected: value === selected }, text));
  return h("label", {}, label, select);
}

// Draw now, and again whenever the container gets another width.
function responsive(container, draw) {
  const place = h("div");
  container.append(place);
  let width = 0;
  const redraw = () => place.replaceChildren(draw(Math.max(280, width || 800)));
  new ResizeObserver((entries) => {
    const now = Math.floor(entries[0].contentRect.width);
    if (now && Math.abs(now - width) > 1) {
      width = now;
      redraw();
    }
  }).observe(place);
  width = Math.floor(place.getBoundingClientRect().width);
  redraw();
  return redraw;
}
