"use strict";

// Nothing here makes HTML of text: whatever comes from a store is the text of a node.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const FIRST = 25, MORE = 200, FILTER_DELAY = 120, SHORT = 80, NARROW_LABELS = 110;
  const collator = new Intl.Collator("en", { numeric: true, sensitivity: "base" });
  const counts = new Intl.NumberFormat("en");
  // A layer without marks, as where nothing was ended, is no mistake that Vega should warn of.
  const ERRORS_ONLY = 1;
  const SEVERITIES = ["clean", "info", "warning", "error", "critical", "unread"];
  const UNITS = [[86400000, "d"], [3600000, "h"], [60000, "min"], [1000, "s"]];
  const SIZES = ["bytes", "KB", "MB", "GB", "TB", "PB"];

  function make(name, attributes, ...children) {
    const node = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) {
      node.setAttribute(key, value);
    }
    node.append(...children);
    return node;
  }

  function time(ms) {
    const date = new Date(Number(ms));
    return Number(ms) < 0 || Number.isNaN(date.getTime()) ? String(ms) : date.toISOString().replace("T", " ").replace("Z", "");
  }

  function duration(value) {
    let ms = Math.round(Number(value));
    if (ms < 0) return "-" + duration(-ms);
    if (ms < 1000) return ms + " ms";
    if (ms < 60000) return Number((ms / 1000).toPrecision(3)) + " s";
    const first = UNITS.findIndex(([length]) => ms >= length);
    const words = [];
    for (const [length, unit] of UNITS.slice(first, first + 2)) {
      const count = Math.floor(ms / length);
      ms -= count * length;
      if (count) words.push(count + " " + unit);
    }
    return words.join(" ");
  }

  function size(value) {
    let rest = Number(value), index = 0;
    while (rest >= 1000 && index < SIZES.length - 1) {
      rest /= 1000;
      index += 1;
    }
    return index ? rest.toFixed(1) + " " + SIZES[index] : rest + " bytes";
  }

  const WRITTEN = {
    count: (value) => counts.format(Number(value)),
    duration,
    flag: (value) => (value ? "yes" : "no"),
    number: String,
    position: (value) => "0x" + BigInt(value).toString(16),
    severity: String,
    share: (value) => (Number(value) * 100).toFixed(1) + " %",
    size,
    text: String,
    time,
  };
  const TEXTS = ["text", "flag", "severity"];

  const written = (kind, value) => (value === null ? "" : WRITTEN[kind](value));

  function compare(kind, one, other) {
    if (kind === "severity") return SEVERITIES.indexOf(one) - SEVERITIES.indexOf(other);
    return TEXTS.includes(kind) ? collator.compare(String(one), String(other)) : Number(one) - Number(other);
  }

  // What is unknown stays behind, whichever way the others are sorted.
  function sorted(rows, column, kind, direction) {
    const sign = direction === "ascending" ? 1 : -1;
    return rows.slice().sort((one, other) => {
      const a = one[column], b = other[column];
      if (a === null || b === null) return (a === null) - (b === null);
      return sign * compare(kind, a, b);
    });
  }

  function table(place, name) {
    const { caption, columns, rows, total } = data.tables[name];
    const body = make("tbody", {});
    const status = make("p", { role: "status", class: "status" });
    const filter = make("input", { type: "search", id: "filter-" + name, autocomplete: "off", spellcheck: "false" });
    filter.setAttribute("aria-describedby", "caption-" + name);
    const more = make("button", { type: "button" }, "Show more");
    const texts = new Map();
    let order = rows, limit = FIRST;

    function textOf(row) {
      if (!texts.has(row)) {
        texts.set(row, row.map((value, at) => written(columns[at].kind, value)).join("\u0000").toLowerCase());
      }
      return texts.get(row);
    }

    function cells(row) {
      return row.map((value, at) => {
        const kind = columns[at].kind;
        const attributes = { class: kind };
        if (kind === "text" && value !== null && value.length > SHORT) attributes.class = "text long";
        if (kind === "severity" && SEVERITIES.includes(value)) attributes.class = "severity " + value;
        if (kind === "size" && value !== null) attributes.title = counts.format(Number(value)) + " bytes";
        if (kind === "position" && value !== null) attributes.title = "byte " + value;
        return make(at === 0 ? "th" : "td", at === 0 ? { ...attributes, scope: "row" } : attributes, written(kind, value));
      });
    }

    function show() {
      const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
      const found = words.length ? order.filter((row) => words.every((word) => textOf(row).includes(word))) : order;
      const shown = found.slice(0, limit);
      body.replaceChildren(...shown.map((row) => make("tr", {}, ...cells(row))));
      more.hidden = shown.length === found.length;
      const left = total - rows.length;
      status.textContent =
        counts.format(shown.length) + " of " + counts.format(found.length) + (words.length ? " rows that match" : " rows") + " shown" +
        (left > 0 ? "; " + counts.format(left) + " more are in the store" : "");
    }

    function sort(at, headings) {
      const cell = headings[at];
      const direction = cell.getAttribute("aria-sort") === "ascending" ? "descending" : "ascending";
      headings.forEach((heading) => heading.removeAttribute("aria-sort"));
      cell.setAttribute("aria-sort", direction);
      order = sorted(rows, at, columns[at].kind, direction);
      show();
    }

    const headings = columns.map(({ name: label, kind, doc }, at) => {
      const button = make("button", { type: "button", title: doc }, label.replaceAll("_", " "));
      button.addEventListener("click", () => sort(at, headings));
      return make("th", { scope: "col", class: kind }, button);
    });
    let waiting = 0;
    filter.addEventListener("input", () => {
      clearTimeout(waiting);
      waiting = setTimeout(() => {
        limit = FIRST;
        show();
      }, FILTER_DELAY);
    });
    more.addEventListener("click", () => {
      limit += MORE;
      show();
    });
    const title = make("caption", { id: "caption-" + name }, caption);
    const scroll = make("div", { class: "scroll", role: "region", tabindex: "0", "aria-labelledby": title.id });
    scroll.append(make("table", {}, title, make("thead", {}, make("tr", {}, ...headings)), body));
    const label = make("label", { for: filter.id }, "Filter");
    place.append(make("div", { class: "tools" }, label, filter, status), scroll, more);
    show();
  }

  function offerCopy(button) {
    const command = button.previousElementSibling;
    button.hidden = false;
    button.setAttribute("aria-label", "copy this command");
    button.addEventListener("click", async () => {
      let said = "copied";
      try {
        await navigator.clipboard.writeText(command.textContent);
      } catch {
        getSelection().selectAllChildren(command);
        said = "selected";
      }
      button.textContent = said;
      setTimeout(() => (button.textContent = "copy"), 2000);
    });
  }

  const narrow = matchMedia("(max-width: 40rem)");
  const dark = matchMedia("(prefers-color-scheme: dark)");

  function theme() {
    const style = getComputedStyle(document.documentElement);
    const [text, line] = ["--text", "--line"].map((name) => style.getPropertyValue(name).trim());
    const axis = { labelColor: text, titleColor: text, domainColor: text, tickColor: text, gridColor: line };
    const legend = { labelColor: text, titleColor: text, orient: narrow.matches ? "bottom" : "right", columns: narrow.matches ? 2 : 1 };
    return { background: "transparent", axis, legend, view: { stroke: line } };
  }

  function draw(place) {
    const spec = structuredClone(data.charts[place.dataset.chart]);
    Object.assign(spec, { width: "container", autosize: { type: "fit-x", contains: "padding" } });
    for (const { encoding } of spec.layer) {
      if (narrow.matches && encoding.y?.axis?.labelLimit) encoding.y.axis.labelLimit = NARROW_LABELS;
    }
    spec.config = { ...spec.config, ...theme() };
    // Expressions are interpreted: the page may compile nothing.
    const options = {
      mode: "vega-lite", ast: true, actions: false, renderer: "svg", defaultStyle: false, logLevel: ERRORS_ONLY,
      tooltip: { disableDefaultStyle: true },
    };
    return vegaEmbed(place, spec, options).then(() => place.setAttribute("data-drawn", ""));
  }

  for (const place of document.querySelectorAll("[data-table]")) table(place, place.dataset.table);
  for (const button of document.querySelectorAll("button.copy")) offerCopy(button);
  const charts = [...document.querySelectorAll("[data-chart]")];
  const seen = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (entry.isIntersecting) {
        seen.unobserve(entry.target);
        draw(entry.target);
      }
    }
  }, { rootMargin: "400px" });
  charts.forEach((place) => seen.observe(place));
  for (const change of [dark, narrow]) {
    change.addEventListener("change", () => charts.filter((place) => "drawn" in place.dataset).forEach(draw));
  }
  // Paper gets all charts, those that nobody scrolled to as well.
  addEventListener("beforeprint", () => charts.filter((place) => !("drawn" in place.dataset)).forEach(draw));
})();
