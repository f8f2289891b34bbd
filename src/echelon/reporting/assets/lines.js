// Line charts with bands, a legend that hides and shows, and a reading of all lines under the pointer.
const LEFT = 58;

// series: {name, colour, dash, x, y, low, high, dotted, mark, step}
function lineChart(width, series, { x_label = "", y_label = "", title = "", height = 270, including = [], dots = false, whole = true, log = false } = {}) {
  const [top, bottom, right] = [24, height - 42, width - 12];
  const xs = extent(series.flatMap((line) => line.x), [], 0);
  const values = series.flatMap((line) => [...line.y, ...(line.low ?? []), ...(line.high ?? [])]).filter((v) => v !== null);
  const ys = log ? [Math.min(...values) / 1.1, Math.max(...values) * 1.1] : extent(values, including, 0.04);
  const X = linear(xs[0], xs[1], LEFT, right);
  const Y = (log ? logarithmic : linear)(ys[0], ys[1], bottom, top);
  const root = plot(width, height, title || y_label);
  root.append(yAxis(Y, ys, LEFT, right, { label: y_label, log }));
  root.append(xAxis(X, xs, bottom, bottom, { label: x_label, whole, count: Math.max(3, Math.floor(width / 110)) }));
  root.append(s("line", { class: "axis", x1: LEFT, x2: right, y1: bottom, y2: bottom }));
  for (const line of series) if (line.low) root.append(s("path", { class: "band", d: bandPath(line, X, Y), style: `fill:${line.colour}` }));
  for (const line of series) {
    const dash = line.dotted ? "1.5 5" : line.dash;
    const style = `stroke:${line.colour}`;
    root.append(s("path", { class: "line", d: linePath(line, X, Y), style, "stroke-dasharray": dash }));
    if (dots || line.x.length === 1) {
      line.x.forEach((x, i) => line.y[i] !== null && root.append(s("circle", { cx: X(x), cy: Y(line.y[i]), r: 3.2, style: `fill:${line.colour}` })));
    }
    if (line.mark) root.append(s("circle", { cx: X(line.mark[0]), cy: Y(line.mark[1]), r: 5, style: `fill:${line.colour}` }));
  }
  readUnderPointer(root, series, X, { top, bottom, right, x_label });
  return root;
}

function linePath(line, X, Y) {
  let [path, open] = ["", false];
  line.x.forEach((x, i) => {
    if (line.y[i] === null) open = false;
    else {
      path += `${open ? "L" : "M"}${X(x).toFixed(1)} ${Y(line.y[i]).toFixed(1)}`;
      open = true;
    }
  });
  return path;
}

function bandPath(line, X, Y) {
  const there = line.x.map((x, i) => [x, line.low[i], line.high[i]]).filter(([, a, b]) => a !== null && b !== null);
  const up = there.map(([x, , high]) => `${X(x).toFixed(1)} ${Y(high).toFixed(1)}`);
  const down = there.map(([x, low]) => `${X(x).toFixed(1)} ${Y(low).toFixed(1)}`).reverse();
  return there.length ? `M${up.concat(down).join("L")}Z` : "";
}

function nearest(values, target) {
  let best = 0;
  values.forEach((value, i) => {
    if (Math.abs(value - target) < Math.abs(values[best] - target)) best = i;
  });
  return best;
}

function readUnderPointer(root, series, X, { top, bottom, right, x_label }) {
  const cross = s("line", { class: "cross", y1: top, y2: bottom, visibility: "hidden" });
  const cover = s("rect", { x: LEFT, y: top, width: right - LEFT, height: bottom - top, fill: "transparent" });
  cover.addEventListener("pointermove", (event) => {
    const box = root.getBoundingClientRect();
    const scale = root.viewBox.baseVal.width / box.width;
    const wanted = X.invert((event.clientX - box.left) * scale);
    const longest = series.reduce((most, line) => (line.x.length > most.x.length ? line : most), series[0]);
    const x = longest.x[nearest(longest.x, wanted)];
    cross.setAttribute("x1", X(x));
    cross.setAttribute("x2", X(x));
    cross.setAttribute("visibility", "visible");
    const lines = series.slice(0, 14).map((line) => {
      const value = line.y[nearest(line.x, x)];
      return h("div", {}, h("span", { class: "swatch", style: `background:${line.colour}` }), `${line.name}: ${short(value)}`);
    });
    showTip(event, h("b", {}, `${x_label} ${short(x)}`), ...lines);
  });
  cover.addEventListener("pointerleave", () => {
    cross.setAttribute("visibility", "hidden");
    hideTip();
  });
  root.append(cross, cover);
}

// A legend whose buttons hide and show lines; `hidden` is a set of names that outlives a redrawing.
function legend(series, hidden, redraw) {
  const names = series.filter((line) => !line.partOf);
  return h("div", { class: "legend", role: "group", "aria-label": "Lines shown" }, names.map((line) => {
    const swatch = line.dash || line.dotted
      ? h("span", { class: "swatch dash", style: `border-color:${line.colour}` })
      : h("span", { class: "swatch", style: `background:${line.colour}` });
    const button = h("button", { type: "button", "aria-pressed": String(!hidden.has(line.name)), onclick: () => {
      if (!hidden.delete(line.name)) hidden.add(line.name);
      button.setAttribute("aria-pressed", String(!hidden.has(line.name)));
      redraw();
    } }, swatch, line.name);
    return button;
  }));
}

// A chart with its legend below.
function lineFigure(container, series, options) {
  const hidden = new Set();
  const redraw = responsive(container, (width) => {
    const shown = series.filter((line) => !hidden.has(line.partOf ?? line.name));
    return shown.length ? lineChart(width, shown, options) : h("p", { class: "help" }, "All lines are hidden.");
  });
  if (series.filter((line) => !line.partOf).length > 1 || options.legend) container.append(legend(series, hidden, redraw));
}
