// One negotiation: paths of price and quantity, and every answer with what L1 allowed and what the layers computed.
const OPS = ["accepts", "counters", "ends"];
const OP_COLOURS = ["var(--c2)", "var(--c0)", "var(--c1)"];

function drawThread(container, below, log, day, thread) {
  const partner = partnerName(log, thread.p);
  const [q0, q1, t0, t1, p0, p1] = thread.issues;
  container.append(
    h("h4", { style: "margin-top:0" }, `${log.competitor} ${thread.s ? "sells to" : "buys from"} ${partner}, day ${day.day + 1}`),
    h("p", { class: "help" }, `Allowed: ${q0}–${q1} pieces, days ${t0 + 1}–${t1 + 1}, prices ${p0}–${p1}.`),
  );
  const panels = h("div", { class: "panels", style: "--panel: 300px" });
  container.append(panels);
  path(panels, thread, log, "Price", 2, [p0, p1]);
  path(panels, thread, log, "Quantity", 0, [0]);
  const told = thread.steps.filter((step) => step[7]);
  if (told.length) {
    minds(panels, thread);
    limits(panels, day, told[told.length - 1][7]);
  }
  below.replaceChildren(rounds(thread, log, partner));
}

// Both sides' offers over the rounds; for quantities also what L1 held safe.
function path(panels, thread, log, title, field, including) {
  const seen = { name: "partner’s offers", colour: "var(--c1)", x: [], y: [] };
  const own = { name: `${log.competitor}’s offers`, colour: "var(--c0)", x: [], y: [] };
  const safe = { name: "safe by L1", colour: "var(--c2)", dash: "6 4", x: [], y: [] };
  for (const [, round, offer, answer, , seenSafe, ownSafe] of thread.steps) {
    if (offer) seen.x.push(round) && seen.y.push(offer[field]);
    if (answer) own.x.push(round) && own.y.push(answer[field]);
    safe.x.push(round);
    safe.y.push(Math.min(answer ? ownSafe : seenSafe, thread.issues[1] * 1.5));
  }
  const lines = [seen, own, ...(field === 0 ? [safe] : [])].filter((line) => line.x.length);
  const panel = h("div", {}, h("h4", {}, title));
  panels.append(panel);
  lineFigure(panel, lines, { x_label: "round", height: 210, including, dots: true, legend: true, title });
}

function minds(panels, thread) {
  const told = thread.steps.filter((step) => step[7]);
  const x = told.map((step) => step[1]);
  const chance = (step, op) => (step[7].ops ? step[7].ops[op] : null);
  const chances = told.some((step) => step[7].ops) ? OPS.map((name, op) => ({ name: `L3: ${name}`, colour: OP_COLOURS[op], x, y: told.map((step) => chance(step, op)) })) : [];
  const alpha = { name: "α of L4", colour: "var(--c3)", dash: "6 4", x, y: told.map((step) => step[7].alpha) };
  const panel = h("div", {}, h("h4", {}, "What the layers computed"));
  panels.append(panel);
  lineFigure(panel, [...chances, alpha], { x_label: "round", height: 210, including: [0, 1], dots: true, legend: true, title: "L3 and α" });
}

// L1's limits for every day ahead, as of the last call.
function limits(panels, day, mind) {
  if (!mind.safe || !mind.safe.length) return;
  const line = { name: "safe by L1", colour: "var(--c2)", x: mind.safe.map((_, ahead) => day.day + ahead + 1), y: mind.safe };
  const panel = h("div", {}, h("h4", {}, "L1’s limits by day of delivery"));
  panels.append(panel);
  lineFigure(panel, [line], { x_label: "day", y_label: "pieces", height: 210, including: [0], dots: true, title: "L1’s limits" });
}

function offerText(offer) {
  return offer ? `${offer[0]} at ${offer[2]}, day ${offer[1] + 1}` : "–";
}

// What L3 chose; a star where the reservation left something else of it.
function wishText({ wish: [op, offer], kept }) {
  return (op === 1 ? offerText(offer) : OPS[op]) + (kept ? "" : " *");
}

function safeCell(offer, safe) {
  if (!offer) return h("td", { class: "num" }, "–");
  return h("td", { class: offer[0] > safe ? "num over" : "num" }, offer[0] > safe ? `${safe} < ${offer[0]}` : String(safe));
}

function chanceBar(ops) {
  if (!ops) return "a rule";
  const text = OPS.map((name, op) => `${name} ${Math.round(ops[op] * 100)} %`).join(", ");
  return h("span", { class: "probs", title: text, role: "img", "aria-label": text },
    ops.map((p, op) => h("i", { style: `width:${p * 100}%;background:${OP_COLOURS[op]}` })));
}

function rounds(thread, log, partner) {
  const told = thread.steps.some((step) => step[7]);
  const heads = ["round", "partner offers", "safe by L1", `${log.competitor} answers`, "safe by L1"];
  if (told) heads.push("L1’s baseline", "L3’s odds", "L3 wanted", "α");
  const rows = thread.steps.map(([, round, seen, own, op, seenSafe, ownSafe, mind]) => h("tr", {},
    h("td", { class: "num" }, String(round)), h("td", {}, offerText(seen)), safeCell(seen, seenSafe),
    h("td", {}, op === 1 ? offerText(own) : h("b", {}, OPS[op])), safeCell(own, ownSafe),
    told && (mind
      ? [h("td", {}, offerText(mind.base)), h("td", {}, chanceBar(mind.ops)), h("td", {}, wishText(mind)), h("td", { class: "num" }, fixed(mind.alpha, 2))]
      : heads.slice(5).map(() => h("td", {}, "–"))),
  ));
  const caption = thread.end === "deal" ? `Ends in a deal with ${partner}: ${offerText(thread.deal)}.` : `No deal with ${partner}.`;
  const note = thread.steps.some((step) => step[7] && !step[7].kept)
    && h("p", { class: "help" }, "* the reservation, which keeps all threads of a call safe together, changed it");
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Answers round by round" },
    h("table", { class: "rounds" }, h("caption", {}, caption), h("thead", {}, h("tr", {}, heads.map((head) => h("th", { scope: "col" }, head)))), h("tbody", {}, rows)), note);
}
