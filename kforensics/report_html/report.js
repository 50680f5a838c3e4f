"use strict";

// Data from the store only ever becomes the text of a node, never HTML.
(async () => {
  // Blocks of the page are compressed: the library that draws the charts alone has almost a megabyte.
  async function unpacked(name) {
    const bytes = Uint8Array.from(atob(document.getElementById(name).textContent), (letter) => letter.charCodeAt(0));
    return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
  }

  if (!("DecompressionStream" in window)) {
    document.querySelector("header").append("This browser is too old for the tables and charts; the incidents are complete.");
    return;
  }
  const data = JSON.parse(await unpacked("data"));
  const FIRST_ROWS = 25, MORE_ROWS = 200, FILTER_DELAY_MS = 120, SHORT_TEXT = 80, NARROW_LABEL_WIDTH = 110;
  const COPY_FEEDBACK_MS = 2000;
  const collator = new Intl.Collator("en", { numeric: true, sensitivity: "base" });
  const counts = new Intl.NumberFormat("en");
  // Vega warns of empty layers, which are normal here: a partition may have no transaction that has ended.
  const ERRORS_ONLY = 1;
  const SEVERITIES = ["clean", "info", "warning", "error", "critical", "unread"];
  const DURATION_UNITS = [[86400000, "d"], [3600000, "h"], [60000, "min"], [1000, "s"]];
  const SIZE_UNITS = ["bytes", "KB", "MB", "GB", "TB", "PB"];

  // Longer durations come from corrupt timestamps. The limit and the forms below are those of formatting.py.
  const LONGEST_DURATION_MS = 999999999 * 86400000;

  function createElement(name, attributes, ...children) {
    const node = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) {
      node.setAttribute(key, value);
    }
    node.append(...children);
    return node;
  }

  function formatTime(ms) {
    const date = new Date(Number(ms));
    if (Number(ms) === -1) return "unknown";
    if (Number(ms) < 0) return String(ms);
    return Number.isNaN(date.getTime()) ? ms + " ms" : date.toISOString().replace("T", " ").replace("Z", " UTC");
  }

  function formatDuration(value) {
    let ms = Math.round(Number(value));
    if (ms < 0) return "-" + formatDuration(-ms);
    if (ms > LONGEST_DURATION_MS) return value + " ms";
    if (ms < 1000) return ms + " ms";
    if (ms < 60000) return Number((ms / 1000).toPrecision(3)) + " s";
    const first = DURATION_UNITS.findIndex(([length]) => ms >= length);
    const parts = [];
    for (const [length, unit] of DURATION_UNITS.slice(first, first + 2)) {
      const count = Math.floor(ms / length);
      ms -= count * length;
      if (count) parts.push(count + " " + unit);
    }
    return parts.join(" ");
  }

  function formatSize(value) {
    let rest = Number(value), index = 0;
    while (rest >= 1000 && index < SIZE_UNITS.length - 1) {
      rest /= 1000;
      index += 1;
    }
    return index ? rest.toFixed(1) + " " + SIZE_UNITS[index] : rest + " bytes";
  }

  const kinds = new Map(data.incidents.map(({ id, kind }) => [id, kind]));
  const chosen = { topic: "", severity: "", incident: "" };
  const tables = [];

  // By the kind of a column.
  const FORMATTERS = {
    count: (value) => counts.format(Number(value)),
    duration: formatDuration,
    flag: (value) => (value ? "yes" : "no"),
    incident: (value) => kinds.get(value) ?? value,
    number: String,
    position: (value) => "0x" + BigInt(value).toString(16),
    severity: String,
    share: (value) => (Number(value) * 100).toFixed(1) + " %",
    size: formatSize,
    text: String,
    time: formatTime,
  };
  const TEXT_KINDS = ["text", "flag", "severity", "incident"];

  const format = (kind, value) => (value === null ? "" : FORMATTERS[kind](value));

  function compare(kind, left, right) {
    if (kind === "severity") return SEVERITIES.indexOf(left) - SEVERITIES.indexOf(right);
    return TEXT_KINDS.includes(kind) ? collator.compare(String(left), String(right)) : Number(left) - Number(right);
  }

  // Nulls come last in both directions.
  function sorted(rows, column, kind, direction) {
    const sign = direction === "ascending" ? 1 : -1;
    return rows.slice().sort((left, right) => {
      const a = left[column], b = right[column];
      if (a === null || b === null) return (a === null) - (b === null);
      return sign * compare(kind, a, b);
    });
  }

  const topicOf = (name) => name.replace(/-\d+$/, "");
  const isInternal = (name) => name !== null && name.startsWith("__");

  // Rows that are folded at first: they are healthy, or of topics in which brokers keep their own state.
  const QUIET = {
    partitions: [
      "healthy ones",
      (row, at) => row[at.verdict] === "clean" || (row[at.verdict] === "info" && isInternal(row[at["topic-partition"]])),
    ],
    transactions: ["of internal topics", (row, at) => isInternal(row[at["topic-partition"]])],
    producers: ["of internal topics", (row, at) => isInternal(row[at["topic-partition"]])],
  };
  // Their rows are in the log of the coordinator, whatever topic they are about.
  const OF_ALL_TOPICS = ["transactional_ids", "distributed_transactions"];

  // The partitions of the findings of an incident, as far as the page has them.
  function partitionsOf(incident) {
    const { columns, rows } = data.tables.findings;
    const at = columns.findIndex(({ kind }) => kind === "incident");
    return new Set(rows.filter((row) => row[at] === incident).map((row) => row[0]));
  }

  function isChosen(name, row, at, partitions) {
    if (chosen.severity && "severity" in at && row[at.severity] !== chosen.severity) return false;
    if (chosen.severity && "verdict" in at && row[at.verdict] !== chosen.severity) return false;
    if (chosen.incident && "incident" in at) return row[at.incident] === chosen.incident;
    if (!("topic-partition" in at) || OF_ALL_TOPICS.includes(name)) return true;
    const place = row[at["topic-partition"]];
    const topic = "committed_topic" in at ? row[at.committed_topic] : place === null ? null : topicOf(place);
    if (chosen.topic && topic !== chosen.topic) return false;
    return !chosen.incident || !partitions.size || "committed_topic" in at || partitions.has(place);
  }

  function showTable(container, name) {
    const { caption, columns, rows, total } = data.tables[name];
    const at = Object.fromEntries(columns.map(({ name: column }, index) => [column, index]));
    const [quietName, isQuiet] = QUIET[name] ?? ["", () => false];
    const quiet = new Set(rows.filter((row) => isQuiet(row, at)));
    let hasQuiet = false;
    const body = createElement("tbody", {});
    const status = createElement("p", { role: "status", class: "status" });
    const filter = createElement("input", { type: "search", id: "filter-" + name, autocomplete: "off", spellcheck: "false" });
    filter.setAttribute("aria-describedby", "caption-" + name);
    const more = createElement("button", { type: "button", class: "show-more" }, "Show more");
    const all = createElement("button", { type: "button", class: "show-all" });
    const hint = createElement("span", { class: "hint", "aria-hidden": "true" }, "more columns to the right →");
    const texts = new Map();
    let order = rows, limit = FIRST_ROWS;

    function textOf(row) {
      if (!texts.has(row)) {
        texts.set(row, row.map((value, index) => format(columns[index].kind, value)).join("\u0000").toLowerCase());
      }
      return texts.get(row);
    }

    function cells(row) {
      return row.map((value, index) => {
        const kind = columns[index].kind;
        const attributes = { class: kind };
        if (kind === "text" && value !== null && value.length > SHORT_TEXT) attributes.class = "text long";
        if (kind === "severity" && SEVERITIES.includes(value)) attributes.class = "severity " + value;
        if (kind === "size" && value !== null) attributes.title = counts.format(Number(value)) + " bytes";
        if (kind === "position" && value !== null) attributes.title = "byte " + value;
        if (index === 0) attributes.scope = "row";
        const isLink = kind === "incident" && value !== null && document.getElementById("incident-" + value);
        const text = format(kind, value);
        const shown = isLink ? createElement("a", { href: "#incident-" + value }, text) : text;
        return createElement(index === 0 ? "th" : "td", attributes, shown);
      });
    }

    function show() {
      const terms = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
      const isFiltered = terms.length > 0 || Object.values(chosen).some(Boolean);
      const partitions = chosen.incident ? partitionsOf(chosen.incident) : new Set();
      const matching = order.filter(
        (row) =>
          (isFiltered || hasQuiet || !quiet.has(row)) &&
          isChosen(name, row, at, partitions) &&
          terms.every((term) => textOf(row).includes(term)),
      );
      const shown = matching.slice(0, limit);
      body.replaceChildren(...shown.map((row) => createElement("tr", {}, ...cells(row))));
      more.hidden = shown.length === matching.length;
      const folded = isFiltered || hasQuiet ? 0 : quiet.size;
      all.hidden = !folded;
      all.textContent = "Show all " + counts.format(rows.length);
      scroll.hidden = !matching.length && folded > 0;
      const left = total - rows.length;
      status.textContent =
        counts.format(shown.length) + " of " + counts.format(matching.length) + (isFiltered ? " matching rows" : " rows") + " shown" +
        (folded ? "; " + counts.format(folded) + " " + quietName + " folded" : "") +
        (left > 0 ? "; " + counts.format(left) + " more are in the store" : "");
      markCut();
      return matching.length;
    }

    function markCut() {
      frame.toggleAttribute("data-cut", scroll.scrollLeft + scroll.clientWidth < scroll.scrollWidth - 1);
    }

    function sort(index, headings) {
      const heading = headings[index];
      const direction = heading.getAttribute("aria-sort") === "ascending" ? "descending" : "ascending";
      headings.forEach((other) => other.removeAttribute("aria-sort"));
      heading.setAttribute("aria-sort", direction);
      order = sorted(rows, index, columns[index].kind, direction);
      show();
    }

    const headings = columns.map(({ name: label, kind, doc }, index) => {
      const button = createElement("button", { type: "button", title: doc }, label.replaceAll("_", " "));
      button.addEventListener("click", () => sort(index, headings));
      return createElement("th", { scope: "col", class: kind }, button);
    });
    let timer = 0;
    filter.addEventListener("input", () => {
      clearTimeout(timer);
      timer = setTimeout(() => {
        limit = FIRST_ROWS;
        show();
      }, FILTER_DELAY_MS);
    });
    more.addEventListener("click", () => {
      limit += MORE_ROWS;
      show();
    });
    all.addEventListener("click", () => {
      hasQuiet = true;
      show();
      filter.focus();
    });
    const title = createElement("caption", { id: "caption-" + name }, caption);
    const scroll = createElement("div", { class: "scroll", role: "region", tabindex: "0", "aria-labelledby": title.id });
    const head = createElement("thead", {}, createElement("tr", {}, ...headings));
    scroll.append(createElement("table", {}, title, head, body));
    const label = createElement("label", { for: filter.id }, "Filter");
    const frame = createElement("div", { class: "frame" }, scroll);
    container.append(createElement("div", { class: "tools" }, label, filter, status, all, hint), frame, more);
    if (total > rows.length) {
      const query = 'kforensics query STORE "SELECT * FROM ' + (name === "inputs" ? "files" : name) + '"';
      container.append(
        createElement("p", { class: "rest" }, "All " + counts.format(total) + " rows: ", createElement("code", {}, query)),
      );
    }
    scroll.addEventListener("scroll", markCut, { passive: true });
    new ResizeObserver(markCut).observe(scroll);
    tables.push({ name, rows, show: () => ((limit = FIRST_ROWS), show()) });
    show();
  }

  function choices() {
    const topics = new Set(data.incidents.flatMap(({ topics: names }) => names ?? []));
    const severities = new Set(data.incidents.map(({ severity }) => severity));
    for (const name of ["partitions", "findings"]) {
      const { columns, rows } = data.tables[name];
      const at = columns.findIndex(({ kind }) => kind === "severity");
      for (const row of rows) {
        if (row[0] !== null) topics.add(topicOf(row[0]));
        if (row[at] !== null) severities.add(row[at]);
      }
    }
    return {
      topic: [...topics].sort(collator.compare).map((topic) => [topic, topic]),
      severity: SEVERITIES.filter((name) => severities.has(name)).reverse().map((name) => [name, name]),
      incident: data.incidents.map(({ id, kind, severity }) => [id, severity + " · " + kind + " · " + id.slice(0, 4)]),
    };
  }

  function showCards() {
    let shown = 0;
    for (const { id, severity, topics } of data.incidents) {
      const card = document.getElementById("incident-" + id);
      if (!card) continue;
      card.hidden =
        (chosen.incident && chosen.incident !== id) ||
        (chosen.severity && chosen.severity !== severity) ||
        (chosen.topic && topics !== null && !topics.includes(chosen.topic));
      shown += !card.hidden;
      if (!card.hidden && (chosen.incident || chosen.severity)) openAround(card);
    }
    for (const group of document.querySelectorAll(".minor")) {
      group.hidden = !group.querySelector("article:not([hidden])");
    }
    return shown;
  }

  function showFilters(bar) {
    const status = createElement("p", { role: "status", class: "status" });
    const clear = createElement("button", { type: "button" }, "Clear");
    const selects = {};
    for (const [name, options] of Object.entries(choices())) {
      if (!options.length) continue;
      const select = createElement("select", { id: "choose-" + name });
      select.append(createElement("option", { value: "" }, "any " + name));
      select.append(...options.map(([value, text]) => createElement("option", { value }, text)));
      const label = createElement("label", { for: select.id }, name);
      selects[name] = select;
      bar.append(createElement("div", {}, label, select));
      select.addEventListener("change", () => apply());
    }

    function apply() {
      for (const [name, select] of Object.entries(selects)) chosen[name] = select.value;
      const cards = showCards();
      const left = Object.fromEntries(tables.map(({ name, show }) => [name, show()]));
      const isFiltered = Object.values(chosen).some(Boolean);
      const parts = [counts.format(cards) + " of " + counts.format(data.incidents.length) + " incidents"];
      for (const { name, rows } of tables) {
        if (["findings", "partitions"].includes(name)) {
          parts.push(counts.format(left[name]) + " of " + counts.format(rows.length) + " " + name);
        }
      }
      status.textContent = isFiltered ? parts.join(", ") : "";
      clear.hidden = !isFiltered;
      bar.toggleAttribute("data-filtered", isFiltered);
    }

    clear.addEventListener("click", () => {
      Object.values(selects).forEach((select) => (select.value = ""));
      apply();
      Object.values(selects)[0].focus();
    });
    bar.append(clear, status);
    clear.hidden = true;
    bar.hidden = false;
    for (const link of document.querySelectorAll(".show-findings")) {
      link.addEventListener("click", () => {
        for (const [name, select] of Object.entries(selects)) select.value = name === "incident" ? link.dataset.incident : "";
        apply();
      });
    }
  }

  // Whatever a link leads to is opened: what it is in, and itself.
  function openAround(target) {
    for (let node = target; node; node = node.parentElement) {
      if (node.tagName === "DETAILS") node.open = true;
    }
    const own = target.querySelector(":scope > details");
    if (own) own.open = true;
  }

  function openTarget() {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!target) return;
    openAround(target);
    target.scrollIntoView();
  }

  function followSections() {
    const links = [...document.querySelectorAll("nav a")];
    const sections = links.map((link) => document.getElementById(link.hash.slice(1)));
    let waits = false;

    function mark() {
      waits = false;
      const line = innerHeight / 3;
      const atEnd = scrollY > 0 && scrollY + innerHeight >= document.documentElement.scrollHeight - 2;
      let current = sections.findLastIndex((section) => section.getBoundingClientRect().top <= line);
      if (atEnd) current = sections.length - 1;
      links.forEach((link, index) => {
        if (index !== current) return link.removeAttribute("aria-current");
        if (link.getAttribute("aria-current")) return;
        link.setAttribute("aria-current", "true");
        const list = link.closest("ul");
        // A link must not move away between the press and the release of a mouse button.
        if (matchMedia("(hover: hover)").matches && list.matches(":hover")) return;
        list.scrollLeft = link.offsetLeft - list.offsetLeft - (list.clientWidth - link.offsetWidth) / 2;
      });
    }

    function later() {
      if (!waits) requestAnimationFrame(mark);
      waits = true;
    }

    addEventListener("scroll", later, { passive: true });
    addEventListener("resize", later);
    document.addEventListener("toggle", later, true);
    mark();
  }

  function enableCopy(button) {
    const command = button.previousElementSibling;
    button.hidden = false;
    button.setAttribute("aria-label", "copy this command");
    button.addEventListener("click", async () => {
      let feedback = "copied";
      try {
        await navigator.clipboard.writeText(command.textContent);
      } catch {
        getSelection().selectAllChildren(command);
        feedback = "selected";
      }
      button.textContent = feedback;
      setTimeout(() => (button.textContent = "copy"), COPY_FEEDBACK_MS);
    });
  }

  const narrow = matchMedia("(max-width: 40rem)");
  const dark = matchMedia("(prefers-color-scheme: dark)");

  function theme() {
    const style = getComputedStyle(document.documentElement);
    const [text, line] = ["--text", "--line"].map((name) => style.getPropertyValue(name).trim());
    const axis = { labelColor: text, titleColor: text, domainColor: text, tickColor: text, gridColor: line };
    const legend = { labelColor: text, titleColor: text, orient: narrow.matches ? "bottom" : "right", columns: narrow.matches ? 2 : 1 };
    return { background: "transparent", axis, legend, text: { color: text }, view: { stroke: line } };
  }

  let loading = null;

  // The page's policy has the hash of the library, so it runs as a script of the page.
  function loadLibrary() {
    loading ??= unpacked("library").then((text) => {
      const script = document.createElement("script");
      script.textContent = text;
      document.body.append(script);
    });
    return loading;
  }

  async function draw(container) {
    await loadLibrary();
    const spec = structuredClone(data.charts[container.dataset.chart]);
    Object.assign(spec, { width: "container", autosize: { type: "fit-x", contains: "padding" } });
    for (const { encoding } of spec.layer) {
      if (narrow.matches && encoding.y?.axis?.labelLimit) encoding.y.axis.labelLimit = NARROW_LABEL_WIDTH;
    }
    spec.config = { ...spec.config, ...theme() };
    // The page's policy forbids compiling code, so Vega interprets expressions (ast).
    const options = {
      mode: "vega-lite", ast: true, actions: false, renderer: "svg", defaultStyle: false, logLevel: ERRORS_ONLY,
      tooltip: { disableDefaultStyle: true },
    };
    await vegaEmbed(container, spec, options);
    // The container is the image and has its name; the groups of Vega in it have roles without names.
    container.querySelector("svg").setAttribute("aria-hidden", "true");
    container.setAttribute("data-drawn", "");
  }

  const FOLDED = "section > details, article > details, .minor";
  const unfolded = [];
  for (const container of document.querySelectorAll("[data-table]")) showTable(container, container.dataset.table);
  for (const button of document.querySelectorAll("button.copy")) enableCopy(button);
  const charts = [...document.querySelectorAll("[data-chart]")];
  const visibility = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (entry.isIntersecting) {
        visibility.unobserve(entry.target);
        draw(entry.target);
      }
    }
  }, { rootMargin: "400px" });
  charts.forEach((container) => visibility.observe(container));
  for (const query of [dark, narrow]) {
    query.addEventListener("change", () => charts.filter((container) => "drawn" in container.dataset).forEach(draw));
  }
  // Before printing, open the sections and draw the charts that have not been scrolled into view.
  addEventListener("beforeprint", () => {
    for (const details of document.querySelectorAll(FOLDED)) {
      if (!details.open) unfolded.push(details);
      details.open = true;
    }
    charts.filter((container) => !("drawn" in container.dataset)).forEach(draw);
  });
  addEventListener("afterprint", () => unfolded.splice(0).forEach((details) => (details.open = false)));
  if (charts.length) (window.requestIdleCallback ?? setTimeout)(loadLibrary);
  showFilters(document.getElementById("filters"));
  addEventListener("hashchange", openTarget);
  // A link to where one already is changes no address.
  for (const link of document.querySelectorAll("a")) {
    link.addEventListener("click", () => link.hash === location.hash && openTarget());
  }
  openTarget();
  followSections();
  document.documentElement.setAttribute("data-ready", "");
})();
