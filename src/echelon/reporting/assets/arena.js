// The charts of an arena (and the standings of a collection).
const SCOPE_NAMES = { all: "all seats", first: "first level", middle: "middle levels", last: "last level" };

function scopeChoices(scopes) {
  return Object.keys(SCOPE_NAMES).filter((scope) => scopes.includes(scope)).map((scope) => [scope, SCOPE_NAMES[scope]]);
}

function scoreRow(run, line, scope) {
  const score = line.scopes[scope];
  const strong = run.agents.includes(line.name);
  return { label: line.name, ...score, strong, colour: colourOf(line.name), note: `${score.seats} seats` };
}

function drawStandings(container, run) {
  const rows = run.standings.map((line) => scoreRow(run, line, "all"));
  const label = "score (final balance / initial balance)";
  responsive(container, (width) => whiskerChart(width, rows, { origin: 1, label, title: "Mean scores with 95 % intervals" }));
}

function drawLevels(container, run) {
  const scopes = ["first", "middle", "last"].filter((scope) => run.standings.some((line) => line.scopes[scope]));
  const every = run.standings.flatMap((line) => scopes.flatMap((scope) => line.scopes[scope] ?? [])).flatMap((x) => [x.low, x.high]);
  const domain = extent(every, [1]);
  const panels = h("div", { class: "panels", style: "--panel: 310px" });
  container.append(panels);
  for (const scope of scopes) {
    const rows = run.standings.filter((line) => line.scopes[scope]).map((line) => scoreRow(run, line, scope));
    const panel = h("div", {}, h("h4", {}, SCOPE_NAMES[scope]));
    panels.append(panel);
    const options = { kind: "dot", origin: 1, domain, label: "score", values: false, title: `Scores, ${SCOPE_NAMES[scope]}` };
    responsive(panel, (width) => whiskerChart(width, rows, options));
  }
}

function drawPaired(container, run) {
  const state = { agent: run.agents[0], scope: "all" };
  const scopes = [...new Set(run.paired.map((p) => p.scope))];
  const controls = h("div", { class: "controls" });
  container.append(controls);
  const redraw = responsive(container, (width) => {
    const mine = run.paired.filter((p) => p.agent === state.agent && p.scope === state.scope);
    const rows = mine.map((p) => ({
      label: p.rival, ...p, colour: p.low > 0 ? "var(--good)" : p.high < 0 ? "var(--bad)" : "var(--soft)",
      pale: p.low <= 0 && p.high >= 0, note: `wins ${Math.round(p.win_rate * 100)} % of the worlds`,
    })).sort((a, b) => b.mean - a.mean);
    const label = `${state.agent} − rival (score)`;
    const options = { kind: "dot", label, signed: true, title: `Paired differences of ${state.agent}` };
    return rows.length ? whiskerChart(width, rows, options) : h("p", { class: "help" }, "No world was played by both.");
  });
  controls.append(
    choice("agent", run.agents.map((name) => [name, name]), state.agent, (value) => { state.agent = value; redraw(); }),
    choice("seats", scopeChoices(scopes), "all", (value) => { state.scope = value; redraw(); }),
  );
}

function drawDays(container, run) {
  const { x, x_label, measures, scopes } = run.curves;
  const state = { measure: "balance", scope: "all" };
  const hidden = new Set();
  const names = run.competitors;
  // With many competitors the bands hide the lines: begin with the evaluated agents and the best three.
  if (names.length > 6) names.filter((name, i) => i > 2 && !run.agents.includes(name)).forEach((name) => hidden.add(name));
  const lines = () => names.filter((name) => scopes[state.scope][name]).map((name) => {
    const { mean, low, high } = scopes[state.scope][name][state.measure];
    return { name, colour: colourOf(name), dash: dashOf(name), x, y: mean, low, high };
  });
  const controls = h("div", { class: "controls" });
  container.append(controls);
  const redraw = responsive(container, (width) => {
    const shown = lines().filter((line) => !hidden.has(line.name));
    const including = state.measure === "balance" ? [1] : [0];
    const options = { x_label, y_label: measures[state.measure], including, height: 320 };
    return shown.length ? lineChart(width, shown, options) : h("p", { class: "help" }, "All lines are hidden.");
  });
  controls.append(
    choice("show", Object.entries(measures), "balance", (value) => { state.measure = value; redraw(); }),
    choice("seats", scopeChoices(Object.keys(scopes)), "all", (value) => { state.scope = value; redraw(); }),
  );
  container.append(legend(lines(), hidden, redraw));
  if (run.curves.thinned) container.append(h("p", { class: "help" }, `${x.length} days are drawn, spread evenly over the world.`));
}

function drawLosses(container, run) {
  const keys = Object.keys(run.causes);
  const state = { scope: "all" };
  const controls = h("div", { class: "controls" });
  container.append(controls);
  const redraw = responsive(container, (width) => {
    const table = run.losses[state.scope];
    const rows = run.competitors.filter((name) => table[name]).map((name) => (
      { label: name, strong: run.agents.includes(name), parts: table[name] }));
    return stackedChart(width, rows, keys, run.causes, "lost, as a share of the initial balance");
  });
  controls.append(choice("seats", scopeChoices(Object.keys(run.losses)), "all", (value) => { state.scope = value; redraw(); }));
  container.append(swatches(keys.map((key, k) => [run.causes[key], causeColour(k)])));
}
