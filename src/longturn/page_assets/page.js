"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const at = (id) => document.getElementById(id);
  const number = (value) => value.toLocaleString("en-US");
  const short = (value) =>
    value >= 1e6 ? `${+(value / 1e6).toFixed(1)}M` : value >= 1e3 ? `${+(value / 1e3).toFixed(1)}k` : `${value}`;
  const counted = (value, word) => `${number(value)} ${word}${value === 1 ? "" : "s"}`;
  const dollars = (value) => `$${value.toFixed(value >= 1 ? 2 : 4)}`;

  // From the bottom of a bar to its top: what stands still, then what grows.
  const KINDS = [
    ["tools", "Tool definitions"],
    ["system", "System"],
    ["checkpoint", "Checkpoint"],
    ["user", "User"],
    ["assistant", "Assistant"],
    ["results", "Results"],
  ];
  const KIND = Object.fromEntries(KINDS.map(([name], place) => [name, place]));
  const ROLES = { s: "system", u: "user", a: "assistant", c: "assistant", t: "results" };
  const EDITS = {
    cleared: "cleared",
    images: "images cleared",
    arguments: "arguments shortened",
    thinking: "thinking left out",
    trimmed: "trimmed",
    softened: "cut for its age",
    hardened: "replaced for its age",
  };
  const OURS = "not in the recording: stands in for what was left out";
  const FEW = 12; // rows that a group shows without being asked

  // Elements. Texts go in as text, never as markup.

  function make(tag, properties = {}, ...children) {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(properties)) {
      if (name.includes("-") || name === "role") node.setAttribute(name, value);
      else node[name] = value;
    }
    node.append(...children.filter((child) => child !== null && child !== ""));
    return node;
  }

  function draw(tag, attributes, ...children) {
    const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    node.append(...children);
    return node;
  }

  // Windows. An item is a row with a bit for each edit, or one of our own texts, which are below 0.

  const rowOf = (item) => Math.floor(item / data.variants);

  function kindOf(run, item) {
    if (item <= data.summary) return KIND.checkpoint;
    return KIND[item < 0 ? "user" : ROLES[run.roles[rowOf(item)]]];
  }

  function sizeOf(run, policy, item) {
    policy.known ??= new Map(policy.sizes);
    return policy.known.get(item) ?? run.tokens[rowOf(item)];
  }

  /** Follow a policy from its first call to `last`; `see` is told of each window, and must not keep `items`. */
  function follow(run, policy, last, see) {
    const items = [];
    const sums = KINDS.map(() => 0);
    sums[KIND.tools] = run.tools;
    sums[KIND.system] = run.system;
    const push = (item) => {
      items.push(item);
      sums[kindOf(run, item)] += sizeOf(run, policy, item);
    };
    let border = 0;
    for (let call = 0; call <= last; call++) {
      const step = policy.windows[call];
      const before = items.length;
      const kept = step ? step[0] : before;
      while (items.length > kept) {
        const item = items.pop();
        sums[kindOf(run, item)] -= sizeOf(run, policy, item);
      }
      if (!step) for (let row = border; row < policy.borders[call]; row++) push(row * data.variants);
      else
        for (let place = 1; place < step.length; place += 2)
          for (let more = 0; more < step[place + 1]; more++) push(step[place] + more * data.variants);
      border = policy.borders[call];
      see({ call, items, sums, kept, isBroken: kept < before });
    }
  }

  /** Tokens of every call by kind, and what happened at it. */
  function seriesOf(run, policy) {
    if (policy.series) return policy.series;
    const calls = policy.borders.length;
    const kinds = KINDS.map(() => new Array(calls).fill(0));
    const series = { calls, kinds, total: [], broken: [], missed: [], rejected: [], peak: 0 };
    follow(run, policy, calls - 1, ({ call, sums, isBroken }) => {
      sums.forEach((sum, kind) => (kinds[kind][call] = sum));
      const total = sums.reduce((one, other) => one + other, 0);
      series.total.push(total);
      series.broken.push(isBroken);
      series.missed.push(call in policy.missed);
      series.rejected.push(run.window !== null && total > run.window);
      series.peak = Math.max(series.peak, total);
    });
    policy.series = series;
    return series;
  }

  const many = (flags) => flags.reduce((sum, flag) => sum + flag, 0);

  // Charts

  const lines = (run) =>
    [
      ["budget", data.budget],
      ["window", run.window],
    ].filter(([, value]) => value);

  /** The top of a scale: room for the calls, and for a line that is near enough to tell something. */
  function topOf(run, peak) {
    return 1.06 * Math.max(1, peak, ...lines(run).map(([, value]) => (value <= 1.7 * peak ? value : 0)));
  }

  function ticks(most, wanted) {
    const rough = most / wanted;
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = Math.max(1, power * [1, 2, 5, 10].find((each) => each * power >= rough));
    return Array.from({ length: Math.floor(most / step) + 1 }, (_, place) => place * step);
  }

  /** Bars from `low` to `high` as one path: apart where there is room between them, else one area with steps. */
  function bars(low, high, x, y, band) {
    if (low.every((value, place) => value === high[place])) return "";
    const round = (value) => Math.round(value * 100) / 100;
    if (band >= 5) {
      const gap = Math.min(band * 0.2, 6);
      return high
        .map((value, place) => {
          const [left, right] = [round(x(place) + gap / 2), round(x(place + 1) - gap / 2)];
          return value > low[place] ? `M${left},${round(y(low[place]))}V${round(y(value))}H${right}V${round(y(low[place]))}Z` : "";
        })
        .join("");
    }
    const over = high.map((value, place) => `V${round(y(value))}H${round(x(place + 1))}`).join("");
    const back = low.map((_, place) => low.length - 1 - place);
    return `M${round(x(0))},${round(y(low[0]))}${over}${back.map((place) => `V${round(y(low[place]))}H${round(x(place))}`).join("")}Z`;
  }

  function stacked(series, x, y, band) {
    let low = series.total.map(() => 0);
    return series.kinds.map((values, kind) => {
      const high = values.map((value, place) => low[place] + value);
      const path = draw("path", { class: `fill ${KINDS[kind][0]}`, d: bars(low, high, x, y, band) });
      low = high;
      return path;
    });
  }

  function marks(flags, x, top, height, band, name) {
    const width = Math.max(1.6, band >= 5 ? band * 0.8 : band);
    const middle = (place) => x(place) + (x(place + 1) - x(place) - width) / 2;
    const path = flags.map((flag, place) => (flag ? `M${middle(place).toFixed(2)},${top}h${width.toFixed(2)}v${height}h${-width.toFixed(2)}z` : ""));
    return draw("path", { class: `mark ${name}`, d: path.join("") });
  }

  function mini(run, policy, top) {
    const [width, height, lane] = [160, 64, 5];
    const series = seriesOf(run, policy);
    const x = (place) => (place / series.calls) * width;
    const y = (value) => height - (value / top) * height;
    const band = width / series.calls;
    return draw(
      "svg",
      { viewBox: `0 0 ${width} ${height + lane + 2}`, "aria-hidden": "true", preserveAspectRatio: "none" },
      ...stacked(series, x, y, band),
      ...lines(run)
        .filter(([, value]) => value <= top)
        .map(([name, value]) => draw("path", { class: `line ${name}`, d: `M0,${y(value)}H${width}` })),
      marks(series.broken, x, height + 2, lane, band, "broken"),
    );
  }

  const LANES = [
    ["broken", "front broke"],
    ["missed", "missed"],
    ["rejected", "rejected"],
  ];

  /** The large chart; gives back its measures, so that a place in it can be turned into a call. */
  function chart(run, policy) {
    const series = seriesOf(run, policy);
    const box = at("chart");
    const width = Math.max(240, box.clientWidth);
    const [left, right, up, height, lane] = [width < 500 ? 68 : 76, 8, 20, width < 500 ? 190 : 260, 16];
    const lanes = LANES.filter(([name]) => name === "broken" || run.policies.some((each) => many(seriesOf(run, each)[name])));
    const hasCache = policy.cached.some((value) => value > 0);
    const bottom = up + height;
    const below = bottom + 22 + (hasCache ? lane + 4 : 0);
    const total = below + lanes.length * lane + 2;
    const top = topOf(run, series.peak);
    const band = (width - left - right) / series.calls;
    const x = (place) => left + place * band;
    const y = (value) => bottom - (value / top) * height;
    const text = (where, down, words, name = "") => draw("text", { x: where, y: down, class: name }, words);

    const svg = draw("svg", {
      viewBox: `0 0 ${width} ${total}`, width, height: total, role: "img",
      "aria-label":
        `Tokens of each call by kind under the policy ${policy.name}: ${counted(series.calls, "call")}, at most ` +
        `${number(series.peak)} tokens; the front broke at ${many(series.broken)}, ${many(series.missed)} missed a result, ` +
        `${many(series.rejected)} would be rejected.`,
    });
    for (const value of ticks(top, 5)) {
      svg.append(draw("path", { class: "grid", d: `M${left},${y(value)}H${width - right}` }));
      svg.append(text(left - 6, y(value) + 4, short(value), "end"));
    }
    svg.append(...stacked(series, x, y, band));
    const places = ticks(series.calls, width < 500 ? 4 : 8).filter((value) => Number.isInteger(value) && value <= series.calls);
    for (const value of new Set([1, ...places.filter((value) => value > 1)]))
      svg.append(text(x(value - 0.5), bottom + 15, number(value), "middle"));
    svg.append(text(left - 6, bottom + 15, "call", "end"));

    const beyond = [];
    for (const [name, value] of lines(run)) {
      if (value > top) beyond.push(`${name} ${short(value)}`);
      else svg.append(
        draw("path", { class: `line ${name}`, d: `M${left},${y(value)}H${width - right}` }),
        text(left + 6, y(value) - 5, `${name} ${short(value)}`, `label ${name}`),
      );
    }
    if (beyond.length) svg.append(text(width - right, 12, `↑ above this scale: ${beyond.join(", ")}`, "end"));

    if (hasCache) {
      const zero = policy.cached.map(() => 0);
      const share = policy.cached.map((value, place) => value / Math.max(1, series.total[place]));
      const level = (value) => bottom + 22 + lane - value * lane;
      svg.append(draw("path", { class: "trough", d: `M${left},${level(0)}H${width - right}` }));
      svg.append(draw("path", { class: "fill cached", d: bars(zero, share, x, level, band) }));
      svg.append(text(left - 6, level(0) - 3, "from cache", "end"));
    }
    lanes.forEach(([name, label], place) => {
      const down = below + place * lane;
      svg.append(draw("path", { class: "trough", d: `M${left},${down + lane - 1}H${width - right}` }));
      svg.append(marks(series[name], x, down + 3, lane - 5, band, name));
      svg.append(text(left - 6, down + lane - 4, label, "end"));
    });
    const cursor = draw("path", { class: "cursor" });
    svg.append(cursor);
    box.replaceChildren(svg);
    at("call").style.marginLeft = `${left - 8}px`;
    at("call").style.width = `${width - left - right + 16}px`;
    return {
      show: (call) => {
        const wide = Math.max(band, 3);
        const start = x(call + 0.5) - wide / 2;
        cursor.setAttribute("d", `M${start},${up - 2}h${wide}V${total}h${-wide}z`);
      },
      callAt: (event) => Math.floor((event.clientX - svg.getBoundingClientRect().left - left) / band),
    };
  }

  // The window of one call, as a list of rows in groups

  const editsOf = (item) => data.edits.filter((_, place) => (item >> place) & 1 && item >= 0);

  function ourText(item) {
    if (item <= data.summary) return "checkpoint";
    return item === data.note ? "note" : "placeholder";
  }

  /** What stood before the call's border, in its order: rows with their items, null for one that was left out. */
  function entriesOf(run, policy, call) {
    let seen;
    follow(run, policy, call, (state) => {
      if (state.call === call) seen = { ...state, items: state.items.slice() };
    });
    const sent = new Set(seen.items.filter((item) => item >= 0).map(rowOf));
    const entries = [];
    let row = 0;
    const leaveOut = (stop) => {
      for (; row < stop; row++) if (!sent.has(row)) entries.push({ row, item: null, inFront: true });
    };
    seen.items.forEach((item, place) => {
      if (item >= 0) leaveOut(rowOf(item));
      entries.push({ row: item < 0 ? -1 : rowOf(item), item, inFront: place < seen.kept });
      if (item >= 0) row = Math.max(row, rowOf(item) + 1);
    });
    leaveOut(policy.borders[call]);
    return { entries, isBroken: seen.isBroken };
  }

  function fateOf(entries) {
    if (entries.some((entry) => entry.row < 0)) return "ours";
    if (entries.every((entry) => entry.item === null)) return "out";
    return entries.every((entry) => entry.item !== null && !editsOf(entry.item).length) ? "whole" : "less";
  }

  /** Groups: neighbouring messages, or answers with their results, with one fate; parted where the front ends. */
  function groupsOf(run, { entries, isBroken }) {
    const units = [];
    for (const entry of entries) {
      const isMore = entry.row >= 0 && "tc".includes(run.roles[entry.row]) && units.length && units.at(-1)[0].row >= 0;
      if (isMore) units.at(-1).push(entry);
      else units.push([entry]);
    }
    const groups = [];
    for (const unit of units) {
      const fate = fateOf(unit);
      const last = groups.at(-1);
      if (last && last.fate === fate) last.units.push(unit);
      else groups.push({ fate, units: [unit] });
    }
    const joined = [];
    groups.forEach((group, place) => {
      // A few whole messages between reduced ones would only tear the list apart.
      const next = groups[place + 1];
      const last = joined.at(-1);
      const isBetween = group.fate === "whole" && group.units.length <= 4 && next?.fate === "less";
      if (last?.fate === "less" && (group.fate === "less" || isBetween)) last.units.push(...group.units);
      else joined.push(group);
    });
    return joined.flatMap((group) => {
      const flat = group.units.flat();
      const end = isBroken ? flat.findIndex((entry) => !entry.inFront) : -1;
      return end > 0 ? [{ ...group, rows: flat.slice(0, end) }, { ...group, rows: flat.slice(end) }] : [{ ...group, rows: flat }];
    });
  }

  function stateOf(entry) {
    if (entry.item === null) return ["out", "left out"];
    if (entry.row < 0) return ["ours", "added"];
    const edits = editsOf(entry.item);
    return edits.length ? ["less", edits.map((edit) => EDITS[edit] ?? edit).join(", ")] : ["whole", "whole"];
  }

  const isMissed = (policy, call, entry) => entry.row >= 0 && (policy.missed[call] ?? []).includes(entry.row);

  function lineOf(run, policy, call, entry) {
    const [state, words] = stateOf(entry);
    const isOurs = entry.row < 0;
    const role = isOurs ? (entry.item <= data.summary ? "checkpoint" : "user") : ROLES[run.roles[entry.row]];
    const tool = isOurs ? "" : run.names[run.named[entry.row]];
    const place = isOurs || run.places[entry.row] < 0 ? "·" : `#${run.places[entry.row]}`;
    const now = entry.item === null ? 0 : sizeOf(run, policy, entry.item);
    const was = isOurs ? now : run.tokens[entry.row];
    const who = isOurs ? ourText(entry.item) : role === "results" ? `← ${tool || "result"}` : role + (tool ? ` → ${tool}` : "");
    const isNew = !isOurs && entry.row >= (call ? policy.borders[call - 1] : 0);
    return make(
      "li",
      { className: `row ${state} ${role}` },
      make("span", { className: "place" }, place),
      make("span", { className: "who" }, who),
      make("span", { className: "text" }, isOurs ? OURS : (run.texts?.[entry.row] ?? "")),
      make(
        "span",
        { className: "state" },
        isMissed(policy, call, entry) ? make("b", { className: "missed" }, "missed") : "",
        isNew ? make("i", { className: "new" }, "new") : "",
        state === "whole" ? "" : words,
      ),
      make("span", { className: "tokens" }, now === was ? number(now) : `${number(now)} of ${number(was)}`),
    );
  }

  const opened = {}; // by fate, as the reader last chose

  const HEADINGS = { whole: "Whole", less: "Reduced", out: "Left out", ours: "Added" };

  function groupNode(run, policy, call, group) {
    const { rows, fate } = group;
    const now = rows.reduce((sum, entry) => sum + (entry.item === null ? 0 : sizeOf(run, policy, entry.item)), 0);
    const was = rows.reduce((sum, entry) => sum + (entry.row < 0 ? 0 : run.tokens[entry.row]), 0);
    const places = rows.filter((entry) => entry.row >= 0 && run.places[entry.row] >= 0).map((entry) => run.places[entry.row]);
    const range = places.length ? (places.length > 1 && places.at(-1) !== places[0] ? `#${places[0]} – #${places.at(-1)}` : `#${places[0]}`) : "";
    const less = rows.filter((entry) => stateOf(entry)[0] === "less").length;
    const what = fate === "less" ? `${number(less)} of ${counted(rows.length, "message")} reduced` : counted(rows.length, "message");
    const list = make("ol", { className: "rows" });
    const details = make(
      "details",
      { className: `group ${fate}` },
      make(
        "summary",
        {},
        make("b", {}, HEADINGS[fate]),
        make("span", { className: "place" }, range),
        make("span", {}, what),
        rows.some((entry) => isMissed(policy, call, entry)) ? make("b", { className: "missed" }, "missed") : "",
        make("span", { className: "tokens" }, fate === "whole" || fate === "ours" ? counted(now, "token") : `${number(now)} of ${counted(was, "token")}`),
      ),
      list,
    );
    const fill = () => {
      if (!list.childElementCount) list.append(...rows.map((entry) => lineOf(run, policy, call, entry)));
    };
    details.open = opened[fate] ?? rows.length <= FEW;
    if (details.open) fill();
    details.querySelector("summary").addEventListener("click", () => (opened[fate] = !details.open));
    details.addEventListener("toggle", fill);
    return details;
  }

  function windowNode(run, policy, call, found) {
    const nodes = [];
    if (run.system || run.tools)
      nodes.push(
        make(
          "p",
          { className: "base" },
          `Before the messages: system prompt ${counted(run.system, "token")}, tool definitions ${counted(run.tools, "token")}.`,
        ),
      );
    let inFront = true;
    for (const group of groupsOf(run, found)) {
      if (found.isBroken && inFront && !group.rows[0].inFront) {
        inFront = false;
        nodes.push(make("p", { className: "front" }, "The front ends here: from here on this request is another than the last one, and no cache serves it."));
      }
      nodes.push(groupNode(run, policy, call, group));
    }
    const border = policy.borders[call];
    if (border < run.tokens.length && run.texts)
      nodes.push(make("p", { className: "quiet answer" }, `What the recorded model answered: #${run.places[border]} `, make("q", {}, run.texts[border])));
    return nodes;
  }

  // What is shown

  const shown = { run: 0, policy: 0, call: 0 };
  let measures = null;

  const now = () => {
    const run = data.runs[shown.run];
    return { run, policy: run.policies[shown.policy] };
  };

  const marked = (series, call) => series.broken[call] || series.missed[call] || series.rejected[call];

  function nextMark(direction) {
    const { run, policy } = now();
    const series = seriesOf(run, policy);
    let call = shown.call + direction;
    while (call >= 0 && call < series.calls && !marked(series, call)) call += direction;
    return call >= 0 && call < series.calls ? call : -1;
  }

  function showCall(call) {
    const { run, policy } = now();
    const series = seriesOf(run, policy);
    shown.call = Math.max(0, Math.min(series.calls - 1, call));
    call = shown.call;
    measures.show(call);
    const found = entriesOf(run, policy, call);
    const total = series.total[call];
    const [cached, cost] = [policy.cached[call], policy.costs?.[call]];
    const notes = [];
    if (series.broken[call]) notes.push(["broken", "The front broke: this request does not begin with the last one."]);
    if (series.rejected[call])
      notes.push(["rejected", `It would be rejected: ${counted(total - run.window, "token")} over the window.`]);
    if (series.missed[call]) {
      const names = policy.missed[call].map((row) => `#${run.places[row]} ${run.names[run.named[row]]}`.trim());
      notes.push(["missed", `The recorded answer quotes what was not whole here: ${names.join(", ")}.`]);
    }
    at("readout").replaceChildren(
      make("p", {}, make("strong", {}, `Call ${number(call + 1)}`), ` of ${number(series.calls)} sends `, make("strong", {}, counted(total, "token")),
        `, ${number(cached)} of them from the cache (${Math.round((100 * cached) / Math.max(1, total))} %)` + (cost === undefined ? "." : `, for ${dollars(cost)}.`)),
      ...notes.map(([name, words]) => make("p", { className: `note ${name}` }, words)),
    );
    const slider = at("call");
    slider.value = call + 1;
    slider.setAttribute("aria-valuetext", [`call ${call + 1}, ${counted(total, "token")}`, ...notes.map(([, words]) => words)].join(". "));
    at("before").disabled = nextMark(-1) < 0;
    at("after").disabled = nextMark(1) < 0;
    at("kinds").replaceChildren(
      ...KINDS.map(([name, label], kind) => {
        const value = series.kinds[kind][call];
        return make("li", { className: value ? name : `${name} none` }, make("span", { className: "swatch", "aria-hidden": "true" }), make("span", {}, label),
          make("span", { className: "tokens" }, number(value)), make("small", {}, `${Math.round((100 * value) / Math.max(1, total))} %`));
      }),
    );
    at("window-name").textContent = `What call ${number(call + 1)} is sent under ${policy.name}`;
    const states = { whole: 0, less: 0, out: 0, ours: 0 };
    for (const entry of found.entries) states[stateOf(entry)[0]] += 1;
    at("window-sum").textContent =
      `Of ${counted(policy.borders[call], "message")}: ${number(states.whole)} whole, ${number(states.less)} reduced, ${number(states.out)} left out` +
      (states.ours ? `; ${number(states.ours)} added.` : ".");
    at("window").replaceChildren(...windowNode(run, policy, call, found));
  }

  function showPolicy(place) {
    shown.policy = place;
    const { run, policy } = now();
    const series = seriesOf(run, policy);
    at("runs").classList.toggle("empty", !series.calls);
    at("caption").textContent = `${policy.name}: tokens of each call by kind`;
    at("call").max = Math.max(1, series.calls);
    if (!series.calls) return;
    measures = chart(run, policy);
    showCall(shown.call);
  }

  function miniNode(run, policy, place, top) {
    const series = seriesOf(run, policy);
    const rejected = many(series.rejected);
    return make(
      "label",
      { className: "mini" },
      make("input", { type: "radio", name: "policy", value: place, checked: place === shown.policy }),
      make("span", { className: "name" }, policy.name),
      mini(run, policy, top),
      make("small", {}, `peak ${short(series.peak)}`),
      make("small", {}, `${number(many(series.broken))} broken`),
      policy.cost === null ? "" : make("small", {}, dollars(policy.cost)),
      rejected ? make("small", { className: "bad" }, `${number(rejected)} rejected`) : "",
    );
  }

  function showRun(place) {
    shown.run = place;
    const { run } = now();
    const peak = Math.max(...run.policies.map((policy) => seriesOf(run, policy).peak));
    const isAlone = data.runs.length < 2 && run.name === document.querySelector("h1").textContent;
    at("run-name").textContent = isAlone ? "Calls" : run.name || `Run ${place + 1}`;
    at("minis").replaceChildren(
      at("minis").firstElementChild,
      ...run.policies.map((policy, number) => miniNode(run, policy, number, topOf(run, peak))),
    );
    showPolicy(Math.min(shown.policy, run.policies.length - 1));
  }

  function sortBy(heading) {
    const body = at("table").tBodies[0];
    const { field } = heading.dataset;
    const isUp = heading.getAttribute("aria-sort") !== "ascending";
    const valueOf = (row) => {
      const cell = row.querySelector(`[data-field="${field}"]`);
      if (field === "name") return cell.textContent;
      return cell.dataset.value === "" ? Infinity : Number(cell.dataset.value);
    };
    const order = (one, other) => (one < other ? -1 : one > other ? 1 : 0) * (isUp ? 1 : -1);
    const rows = [...body.rows].sort((one, other) => order(valueOf(one), valueOf(other)));
    for (const each of at("table").querySelectorAll("th[aria-sort]")) each.removeAttribute("aria-sort");
    heading.setAttribute("aria-sort", isUp ? "ascending" : "descending");
    body.append(...rows);
  }

  function listen() {
    at("table").tHead.addEventListener("click", (event) => {
      const heading = event.target.closest("th");
      if (heading) sortBy(heading);
    });
    at("run").addEventListener("change", (event) => {
      shown.call = 0;
      showRun(Number(event.target.value));
    });
    at("minis").addEventListener("change", (event) => showPolicy(Number(event.target.value)));
    at("call").addEventListener("input", (event) => showCall(Number(event.target.value) - 1));
    at("before").addEventListener("click", () => showCall(nextMark(-1)));
    at("after").addEventListener("click", () => showCall(nextMark(1)));
    const box = at("chart");
    box.addEventListener("pointerdown", (event) => {
      if (event.button) return;
      box.setPointerCapture(event.pointerId);
      showCall(measures.callAt(event));
    });
    box.addEventListener("pointermove", (event) => {
      if (box.hasPointerCapture(event.pointerId)) showCall(measures.callAt(event));
    });
    let width = box.clientWidth;
    new ResizeObserver(() => {
      if (box.clientWidth === width) return;
      width = box.clientWidth;
      showPolicy(shown.policy);
    }).observe(box);
  }

  if (!data.runs.some((run) => run.policies.length)) return;
  at("run-choice").hidden = data.runs.length < 2;
  at("run").append(...data.runs.map((run, place) => make("option", { value: place }, run.name || `Run ${place + 1}`)));
  at("runs").hidden = false;
  const first = data.runs[0].policies.findIndex((policy) => policy.name === "default");
  shown.policy = Math.max(0, first);
  showRun(0);
  listen();
})();
