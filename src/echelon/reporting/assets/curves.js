// Training curves, and the bars of a dataset.
function drawTraining(container, run) {
  for (const part of run.parts) {
    const head = [part.line && h("p", { class: "help" }, part.line), part.note && h("p", { class: "help" }, part.note)];
    const panels = h("div", { class: "panels" });
    if (part.folded) {
      const details = h("details", {}, h("summary", {}, part.title), panels);
      // Drawn when opened: a folded panel has no width.
      details.addEventListener("toggle", () => details.open && !panels.childElementCount && drawPlots(panels, part.plots));
      container.append(details);
    } else {
      container.append(h("h4", {}, part.title), ...head.filter(Boolean), panels);
      drawPlots(panels, part.plots);
    }
  }
}

function drawPlots(panels, plots) {
  for (const { title, x_label, series } of plots) {
    const panel = h("div", {}, h("h4", {}, title));
    panels.append(panel);
    const lines = series.map((line) => ({ ...line, colour: colour(line.colour), dash: line.colour >= COLOURS ? "7 4" : null }));
    lineFigure(panel, lines, { x_label, title, height: 240, log: !lines.some((line) => line.low) && fallsFar(lines) });
  }
}

// Losses that begin a hundred times as high as they end are read by powers of ten.
function fallsFar(lines) {
  const values = lines.flatMap((line) => line.y).filter((value) => value !== null);
  const [low, high] = [Math.min(...values), Math.max(...values)];
  return values.length > 2 && low > 0 && high > 1 && high / low > 30;
}

function drawShares(container, run) {
  const panels = h("div", { class: "panels" });
  container.append(panels);
  for (const { title, groups } of run.charts) {
    const panel = h("div", {}, h("h4", {}, title));
    panels.append(panel);
    responsive(panel, (width) => shareChart(width, groups, title));
    panel.append(swatches(Object.keys(groups).map((name, i) => [name, colour(i)])));
  }
}
