// Horizontal charts with one row per competitor: bars or dots with whiskers, and stacked bars.
const ROW = 28;

function rowLabel(row, room, y, colourful = false) {
  const attributes = { class: row.strong ? "strong" : null, x: room - 10, y: y + 4, "text-anchor": "end" };
  if (colourful) attributes.style = `fill:${row.colour}`;
  return s("text", attributes, cut(row.label, room), s("title", {}, row.label));
}

function explain(node, row, lines) {
  const content = () => [h("b", {}, row.label), ...lines.map((line) => h("div", {}, line))];
  node.addEventListener("pointermove", (event) => showTip(event, ...content()));
  node.addEventListener("pointerleave", hideTip);
  return node;
}

// rows: {label, mean, low, high, colour, strong, pale, note}; options: kind "bar" | "dot", origin, label, signed, domain.
function whiskerChart(width, rows, options) {
  const { kind = "bar", origin = 0, label = "", signed = false } = options;
  const values = options.values !== false && width > 520; // where there is no room, the tooltip shows them
  const room = labelRoom(rows.map((row) => row.label), width, values ? 0.34 : 0.46);
  const side = values ? (signed ? 172 : 150) : 16;
  const height = rows.length * ROW + 48;
  const domain = options.domain ?? extent(rows.flatMap((row) => [row.low, row.high, row.mean]), [origin]);
  const X = linear(domain[0], domain[1], room, width - side);
  const bottom = rows.length * ROW + 6;
  const root = plot(width, height, options.title ?? label);
  root.append(xAxis(X, domain, 2, bottom, { label, count: Math.max(4, Math.floor((width - room - side) / 110)), zero: origin }));
  root.append(s("line", { class: "zero", x1: X(origin), x2: X(origin), y1: 2, y2: bottom }));
  rows.forEach((row, i) => {
    const y = 6 + i * ROW + ROW / 2 - 1;
    const group = s("g", { class: row.pale ? "pale" : null });
    const [a, b] = [X(origin), X(row.mean)];
    if (kind === "bar") {
      const style = `fill:${row.colour}`;
      group.append(s("rect", { x: Math.min(a, b), width: Math.max(1, Math.abs(b - a)), y: y - 8, height: 16, rx: 2, style }));
    }
    const style = kind === "bar" ? null : `stroke:${row.colour};stroke-width:2.2`;
    const path = `M${X(row.low)} ${y - 4}v8m0 -4H${X(row.high)}m0 -4v8`;
    group.append(s("path", { class: "whisker", d: path, style }));
    if (kind === "dot") group.append(s("circle", { cx: b, cy: y, r: 5, style: `fill:${row.colour}` }));
    group.append(s("rect", { x: 0, width, y: y - ROW / 2, height: ROW, fill: "transparent" }));
    const digits = [row.mean, row.low, row.high].map((value) => fixed(value, 3, signed));
    const text = `${digits[0]} [${digits[1]}, ${digits[2]}]`;
    explain(group, row, [text, ...(row.note ? [row.note] : [])]);
    root.append(rowLabel(row, room, y), group);
    if (values) root.append(s("text", { class: "value", x: width - side + 12, y: y + 4 }, text));
  });
  return root;
}

// rows: {label, strong, parts: {key: value}}; what is negative is stacked to the left of 0.
function stackedChart(width, rows, keys, names, label) {
  const room = labelRoom(rows.map((row) => row.label), width);
  const sides = rows.map((row) => {
    const values = keys.map((key) => row.parts[key]);
    return [values.filter((v) => v < 0).reduce((a, b) => a + b, 0), values.filter((v) => v > 0).reduce((a, b) => a + b, 0)];
  });
  const domain = extent(sides.flat(), [0]);
  const X = linear(domain[0], domain[1], room, width - 90);
  const bottom = rows.length * ROW + 6;
  const root = plot(width, bottom + 42, label);
  root.append(xAxis(X, domain, 2, bottom, { label, count: Math.max(3, Math.floor((width - room) / 120)), zero: 0 }));
  rows.forEach((row, i) => {
    const y = 6 + i * ROW + ROW / 2 - 1;
    let [left, right] = [0, 0];
    root.append(rowLabel(row, room, y));
    keys.forEach((key, k) => {
      const value = row.parts[key];
      const from = value < 0 ? (left += value) : right;
      if (value > 0) right += value;
      const size = Math.abs(X(value) - X(0));
      const box = s("rect", { x: X(from), width: size, y: y - 9, height: 18, style: `fill:${causeColour(k)}` });
      root.append(explain(box, row, [`${names[key]}: ${fixed(value, 4, true)}`]));
    });
    const total = fixed(sides[i][0] + sides[i][1], 3, true);
    root.append(s("text", { class: "value", x: width - 78, y: y + 4 }, `Σ ${total}`));
  });
  root.append(s("line", { class: "zero", x1: X(0), x2: X(0), y1: 2, y2: bottom }));
  return root;
}

// Causes have colours of their own, so that they are not mistaken for competitors.
function causeColour(number) {
  return `var(--k${number % 6})`;
}

function swatches(entries) {
  return h("div", { class: "legend" }, entries.map(([name, paint]) =>
    h("span", { class: "item" }, h("span", { class: "swatch", style: `background:${paint}` }), name)));
}

// Vertical bars: groups is {series: {category: share}}.
function shareChart(width, groups, title) {
  const series = Object.keys(groups);
  const categories = [...new Set(series.flatMap((name) => Object.keys(groups[name])))];
  const [left, top, bottom] = [46, 12, 210];
  const most = Math.max(0.01, ...series.flatMap((name) => Object.values(groups[name])));
  const Y = linear(0, most, bottom, top);
  const wraps = categories.some((name) => breakInTwo(name, (width - left - 6) / categories.length / 6.6)[1]);
  const root = plot(width, bottom + (wraps ? 44 : 28), title);
  root.append(yAxis(Y, [0, most], left, width - 6, { format: (value) => `${Math.round(value * 100)} %` }));
  const step = (width - left - 6) / categories.length;
  categories.forEach((category, c) => {
    const size = (step * 0.8) / series.length;
    series.forEach((name, i) => {
      const value = groups[name][category] ?? 0;
      const x = left + c * step + step * 0.1 + i * size;
      const box = s("rect", { x, width: Math.max(1, size - 1), y: Y(value), height: bottom - Y(value), style: `fill:${colour(i)}` });
      root.append(explain(box, { label: name }, [`${category}: ${(value * 100).toFixed(1)} %`]));
    });
    const at = { class: "tick", x: left + (c + 0.5) * step, "text-anchor": "middle" };
    const [first, second] = breakInTwo(category, step / 6.6);
    root.append(s("text", { ...at, y: bottom + 17 }, first), second ? s("text", { ...at, y: bottom + 32 }, second) : "");
  });
  return root;
}

function breakInTwo(text, most) {
  if (text.length <= most || !text.includes(" ")) return [text, ""];
  const middle = text.lastIndexOf(" ", Math.max(text.indexOf(" "), Math.ceil(text.length / 2) + 1));
  return [text.slice(0, middle), text.slice(middle + 1)];
}
