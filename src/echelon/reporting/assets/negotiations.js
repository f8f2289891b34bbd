// Browsing negotiations: world, competitor, day, partner.
const DAWN = [
  "balance", "input stock", "output stock", "input price", "output price", "supplies needed", "sales needed",
  "exogenous in", "exogenous out", "shortfall penalty", "storage cost", "disposal cost",
];

function seatName(log) {
  const place = log.level === 0 ? "first" : log.level === log.levels - 1 ? "last" : "middle";
  return `${log.competitor} · ${log.id} (level ${log.level}, ${place})`;
}

function drawNegotiations(container, run) {
  const { logs } = run.negotiations;
  const worlds = [...new Set(logs.map((log) => log.world))];
  const state = { world: worlds[0], log: null, day: 0, thread: 0 };
  const controls = h("div", { class: "controls" });
  const daybook = h("div");
  const threads = h("div", { class: "threads", role: "group", "aria-label": "Negotiations of the day" });
  const detail = h("div");
  const below = h("div");
  container.append(controls, daybook, h("div", { class: "browser" }, threads, detail), below);

  const ofWorld = () => logs.filter((log) => log.world === state.world);
  const day = () => state.log.days[state.day];

  function chooseWorld(world) {
    state.world = world;
    const same = ofWorld().find((log) => state.log && log.competitor === state.log.competitor);
    chooseLog(same ?? ofWorld()[0]);
  }

  function chooseLog(log) {
    const before = state.log ? day().day : 0;
    state.log = log;
    state.day = nearest(log.days.map((d) => d.day), before);
    chooseDay(state.day);
  }

  function chooseDay(number) {
    state.day = number;
    // The thread with most to see: a deal with many rounds.
    const worth = day().threads.map((t) => t.steps.length + (t.end === "deal" ? 100 : 0));
    state.thread = worth.length ? worth.indexOf(Math.max(...worth)) : 0;
    show();
  }

  function show() {
    controls.replaceChildren(
      choice("world", worlds.map((world) => [world, world]), state.world, chooseWorld),
      choice("competitor", ofWorld().map((log, i) => [String(i), seatName(log)]), String(ofWorld().indexOf(state.log)),
        (value) => chooseLog(ofWorld()[Number(value)])),
      h("button", { type: "button", "aria-label": "Day before", disabled: state.day === 0, onclick: () => chooseDay(state.day - 1) }, "‹"),
      choice("day", state.log.days.map((d, i) => [String(i), `${d.day + 1} of ${state.log.n_days}`]), String(state.day),
        (value) => chooseDay(Number(value))),
      h("button", { type: "button", "aria-label": "Day after", disabled: state.day === state.log.days.length - 1, onclick: () => chooseDay(state.day + 1) }, "›"),
    );
    daybook.replaceChildren(dayBook(day()), goalBook(day(), run.negotiations.buckets));
    showThreads();
  }

  function showThreads() {
    threads.replaceChildren(...day().threads.map((thread, i) => h(
      "button", { type: "button", "aria-current": String(i === state.thread), onclick: () => { state.thread = i; showThreads(); } },
      h("span", { class: "who" }, `${thread.s ? "sells to" : "buys from"} ${partnerName(state.log, thread.p)}`), outcome(thread),
    )));
    const thread = day().threads[state.thread];
    detail.replaceChildren();
    below.replaceChildren();
    if (thread) drawThread(detail, below, state.log, day(), thread);
    else detail.append(h("p", { class: "help" }, "No negotiation on this day."));
  }

  chooseWorld(worlds[0]);
}

function partnerName(log, partner) {
  return log.partners[partner] ? `${log.partners[partner]} (${partner})` : partner;
}

function outcome(thread) {
  const answers = `${thread.steps.length} ${thread.steps.length === 1 ? "answer" : "answers"}`;
  if (thread.end === "deal") {
    const [quantity, time, price] = thread.deal;
    return h("span", { class: "what" }, `${answers}: `, h("span", { class: "deal" }, `${quantity} at ${price} for day ${time + 1}`));
  }
  return h("span", { class: "what" }, `${answers}: `, h("span", { class: "nodeal" }, thread.end === "ended" ? "it ended the talks" : "no deal"));
}

function dayBook(day) {
  const items = DAWN.map((name, i) => [name, short(day.dawn[i])]);
  if (day.dusk) {
    items.push(["→ balance at dusk", short(day.dusk[0])], ["profit", fixed(day.dusk[1], 1, true)]);
    items.push(["not delivered", short(day.dusk[2])], ["lines in use", `${Math.round(day.dusk[3] * 100)} %`]);
  }
  return h("div", { class: "daybook" }, items.map(([name, value]) => h("div", {}, h("span", {}, `${name} `), value)));
}

// L2's goal, where a diary tells it: pieces and prices by bucket of days ahead.
function goalBook(day, buckets) {
  if (!day.goal) return "";
  const text = buckets.map((days, bucket) => {
    const [buy, buyAt, sell, sellAt] = day.goal.slice(4 * bucket, 4 * bucket + 4);
    return h("div", {}, h("span", {}, `${days} days ahead: `), `buy ${fixed(buy, 1)} at ${fixed(buyAt, 1)}, sell ${fixed(sell, 1)} at ${fixed(sellAt, 1)}`);
  });
  return h("div", { class: "daybook" }, h("div", {}, h("b", {}, "L2’s goal")), text);
}
