// What script adds to the pages: live prices, completion, copies, PNG, sorting. Text becomes text nodes, never markup.

const one = (selector, within = document) => within.querySelector(selector);
const all = (selector, within = document) => [...within.querySelectorAll(selector)];
const live = one(".live");
const say = (text) => { live.textContent = text; };
const make = (tag, text, attributes = {}) => {
  const made = document.createElement(tag);
  made.textContent = text;
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
};

const WAIT_MS = 250, SLOW_MS = 5000, MAX_OFFERS = 8;

one("[data-focus]")?.focus();

// -- forms that take a while --

function markBusy(form, button) {
  if (one("form[data-sent]")) return false; // of any form: a button that has moved under the pointer asks nothing
  form.dataset.sent = "yes";
  if (button) {
    button.dataset.words = button.textContent;
    button.textContent = form.dataset.busy;
    button.setAttribute("aria-disabled", "true");
  }
  say(form.dataset.busy);
  const slow = one("[data-slow]");
  setTimeout(() => {
    if (slow && form.dataset.sent) { slow.hidden = false; say(slow.textContent); }
  }, SLOW_MS);
  return true;
}

for (const form of all("form[data-busy]")) {
  form.addEventListener("submit", (event) => {
    const button = event.submitter;
    if (button?.hasAttribute("formaction")) return;
    if (!markBusy(form, button)) event.preventDefault();
  });
}

// A page that comes back from the cache of the browser can be used again.
addEventListener("pageshow", (event) => {
  if (!event.persisted) return;
  for (const form of all("form[data-sent]")) delete form.dataset.sent;
  for (const button of all("button[data-words]")) {
    button.textContent = button.dataset.words;
    button.removeAttribute("aria-disabled");
  }
});

const countdown = one("[data-countdown]");
if (countdown) {
  const again = one("form[data-again]");
  const ticking = setInterval(() => {
    countdown.textContent = Math.max(Number(countdown.textContent) - 1, 0);
    if (countdown.textContent === "0") {
      clearInterval(ticking);
      again?.requestSubmit();
    }
  }, 1000);
}

// -- the price of what is typed --

const question = one("form[data-price]");
let running = null, timer = 0;

async function estimate() {
  running?.abort();
  running = new AbortController();
  const list = one("[data-estimate]"), hint = one("[data-estimate-hint]"), ask = one("[data-ask]");
  const body = new URLSearchParams(new FormData(question));
  try {
    const reply = await fetch(question.dataset.price, { method: "POST", body, signal: running.signal });
    if (reply.status === 401) { hint.hidden = false; hint.textContent = "You are signed out: ask for the price, and sign in."; return; }
    if (!reply.ok) { hint.hidden = false; hint.textContent = "The price is not known at this moment."; return; }
    const found = await reply.json();
    list.replaceChildren();
    hint.hidden = !found.refused;
    if (found.refused) {
      hint.textContent = found.refused;
    } else {
      for (const [name, text] of Object.entries(found.lines)) {
        const words = make("dd", "");
        words.append(make("bdi", text));
        list.append(make("dt", name), words);
      }
      const sql = one("[data-sql]");
      if (sql) sql.textContent = found.sql;
    }
    if (ask) ask.textContent = found.refused || found.fits ? "Ask" : "Ask: more than is left";
    say(found.refused ? found.refused : `Price: ${found.lines.price}`);
  } catch (error) {
    if (error.name !== "AbortError") { hint.hidden = false; hint.textContent = "The price is not known at this moment."; }
  }
}

if (question) {
  one("[data-price-button]").hidden = true;
  const later = () => { clearTimeout(timer); timer = setTimeout(estimate, WAIT_MS); };
  question.addEventListener("input", later);
  question.addEventListener("change", later);
  estimate();
}

// Values of a condition are completed where its column is public.
function linkValues(condition) {
  const [column, , value] = all("select, input", condition);
  const list = all("datalist[data-column]").find((each) => each.dataset.column === column.value);
  if (list) value.setAttribute("list", list.id); else value.removeAttribute("list");
}
for (const condition of all(".condition")) {
  linkValues(condition);
  condition.addEventListener("change", () => linkValues(condition));
}

// -- completion of SQL --

const KEYWORDS = ["SELECT", "FROM", "WHERE", "GROUP BY", "ORDER BY", "LIMIT", "AND", "OR", "NOT", "IN", "BETWEEN", "IS NOT NULL", "DESC", "COUNT(DISTINCT", "AS", "HAVING", "DISTINCT"];
const editor = one("#sql");
let known = null;

async function loadWords() {
  if (known === null) {
    known = { tables: [] };
    const reply = await fetch(question.dataset.words);
    if (reply.ok) known = await reply.json();
  }
}

const quoted = (name) => (/^[a-z_][a-z0-9_]*$/.test(name) ? name : `"${name.replaceAll('"', '""')}"`);

// What may stand at the cursor: the texts, each with what it is.
function findOffers(before) {
  const inText = before.split("'").length % 2 === 0;
  const text = inText ? before.slice(before.lastIndexOf("'")) : /[\w"]*$/.exec(before)[0], ahead = before.slice(0, before.length - text.length);
  const named = known.tables.filter((table) => before.includes(table.name) || editor.value.includes(table.name));
  const tables = named.length ? named : known.tables;
  const columns = tables.flatMap((table) => table.columns);
  const compared = /([\w"]+)\s*(?:=|<>|!=|IN\s*\([^)]*)\s*$/i.exec(ahead);
  const offers = [];
  if (compared) {
    const column = columns.find((each) => quoted(each.name) === compared[1]);
    for (const value of column?.values ?? []) {
      offers.push([typeof value === "string" ? `'${value.replaceAll("'", "''")}'` : String(value), "value"]);
    }
  } else if (/\b(?:FROM|JOIN)\s+$/i.test(ahead)) {
    offers.push(...known.tables.map((table) => [quoted(table.name), "table"]));
  } else if (!inText) {
    offers.push(...columns.map((column) => [quoted(column.name), column.type]));
    offers.push(...tables.flatMap((table) => table.measures.map((name) => [quoted(name), "measure"])));
    offers.push(...KEYWORDS.map((word) => [word, ""]));
  }
  const wanted = text.toLowerCase();
  const fitting = offers.filter(([offer]) => offer.toLowerCase().startsWith(wanted) && offer !== text);
  const different = [...new Map(fitting.map((offer) => [offer[0], offer])).values()];
  return { text, offers: different.slice(0, MAX_OFFERS) };
}

if (editor) {
  const list = make("ul", "", { class: "offers", role: "listbox", id: "offers", "aria-label": "Completions" });
  list.hidden = true;
  editor.after(list);
  for (const [name, value] of Object.entries({ "aria-autocomplete": "list", "aria-controls": "offers", "aria-haspopup": "listbox" })) editor.setAttribute(name, value);
  let chosen = 0, current = { text: "", offers: [] };

  const close = () => {
    list.hidden = true;
    editor.removeAttribute("aria-activedescendant");
  };
  const mark = () => {
    all("li", list).forEach((item, place) => item.setAttribute("aria-selected", String(place === chosen)));
    editor.setAttribute("aria-activedescendant", `offer-${chosen}`);
    list.children[chosen]?.scrollIntoView({ block: "nearest" });
    say(`${current.offers[chosen][0]}, ${chosen + 1} of ${current.offers.length}`);
  };
  const open = (asked) => {
    const before = editor.value.slice(0, editor.selectionStart);
    current = findOffers(before);
    if (!current.offers.length || (!asked && current.text.length < 2)) return close();
    chosen = 0;
    list.replaceChildren(...current.offers.map(([offer, kind], place) => {
      const item = make("li", offer, { role: "option", id: `offer-${place}` });
      if (kind) item.append(make("small", kind));
      item.addEventListener("mousedown", (event) => { event.preventDefault(); chosen = place; take(); });
      return item;
    }));
    list.hidden = false;
    mark();
  };
  const take = () => {
    const end = editor.selectionStart, start = end - current.text.length;
    editor.setRangeText(current.offers[chosen][0], start, end, "end");
    close();
    editor.dispatchEvent(new Event("input", { bubbles: true }));
    close();
  };
  editor.addEventListener("focus", loadWords, { once: true });
  editor.addEventListener("input", (event) => { if (event.isTrusted && known) open(false); });
  editor.addEventListener("blur", close);
  editor.addEventListener("keydown", async (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      const ask = one("[data-ask]");
      if (ask) question.requestSubmit(ask);
      return;
    }
    if (event.key === " " && event.ctrlKey) {
      event.preventDefault();
      await loadWords();
      open(true);
      return;
    }
    if (list.hidden) return;
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) { chosen = (chosen + step + current.offers.length) % current.offers.length; mark(); }
    else if (event.key === "Tab" || event.key === "Enter") take();
    else if (event.key === "Escape") close();
    else return;
    event.preventDefault();
  });
  if (editor.dataset.at) {
    const [line, column] = editor.dataset.at.split(",").map(Number);
    const start = editor.value.split("\n").slice(0, line - 1).join("\n").length + (line > 1 ? 1 : 0) + column - 1;
    editor.focus();
    editor.setSelectionRange(start, start + Math.max(/^\w*/.exec(editor.value.slice(start))[0].length, 1));
  }
}

// -- a colleague's question: behind # in the address, which no server sees --

const KEPT = "sfumato-question";
const carried = /^#q=(.*)$/.exec(location.hash);
if (carried) {
  try { sessionStorage.setItem(KEPT, decodeURIComponent(carried[1])); } catch { /* it is not a link of ours */ }
  if (editor) history.replaceState(null, "", location.pathname + location.search);
}
if (editor && sessionStorage.getItem(KEPT)) {
  editor.value = sessionStorage.getItem(KEPT);
  sessionStorage.removeItem(KEPT);
  estimate();
}

// -- copies --

async function copy(button, text) {
  await navigator.clipboard.writeText(text);
  const words = button.textContent;
  button.textContent = "Copied";
  say("Copied");
  setTimeout(() => { button.textContent = words; }, 2000);
}
const address = one("[data-copy-address]"), colleague = one("[data-copy-question]");
if (navigator.clipboard) {
  if (address) { address.hidden = false; address.addEventListener("click", () => copy(address, location.href)); }
  if (colleague) {
    colleague.hidden = false;
    colleague.addEventListener("click", () => {
      const sql = encodeURIComponent(one("[data-question]").textContent);
      copy(colleague, `${location.origin}/ask?way=sql#q=${sql}`);
    });
  }
  for (const button of all("[data-copy]")) {
    button.hidden = false;
    button.addEventListener("click", () => copy(button, one("code", button.parentElement).textContent));
  }
}

// -- PNG --

const picture = one("[data-picture]");
if (picture) {
  const button = make("button", "PNG", { type: "button", class: "quiet" });
  button.addEventListener("click", async () => {
    const text = await (await fetch(picture.href)).text();
    const image = new Image();
    image.src = `data:image/svg+xml,${encodeURIComponent(text)}`;
    await image.decode();
    const canvas = make("canvas", "", { width: 2 * image.width, height: 2 * image.height });
    canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
    const link = make("a", "", { href: canvas.toDataURL("image/png"), download: `${picture.dataset.picture || "answer"}.png` });
    link.click();
  });
  picture.after(button);
}

// -- sorting --

for (const table of all("table[data-sortable]")) {
  const body = one("tbody", table);
  all("thead th", table).forEach((head, place) => {
    const words = [...head.childNodes], button = make("button", "", { type: "button" });
    button.append(...words);
    head.append(button);
    button.addEventListener("click", () => {
      const rises = head.getAttribute("aria-sort") !== "ascending";
      all("thead th", table).forEach((each) => each.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", rises ? "ascending" : "descending");
      const key = (row) => row.cells[place].dataset.value ?? row.cells[place].textContent;
      const rows = [...body.rows].sort((a, b) => {
        const [left, right] = [key(a), key(b)];
        const order = (row) => Number(row.cells[place].dataset.value);
        return a.cells[place].dataset.value === undefined ? left.localeCompare(right) : order(a) - order(b);
      });
      body.append(...(rises ? rows : rows.reverse()));
    });
  });
}

// -- the entities of a report: arrow keys, and names while they are typed --

const tree = one("[data-tree]");
if (tree) {
  const OPENED = "sfumato-opened", finder = one("[data-find]"), list = one("[data-found]");
  if (sessionStorage.getItem(OPENED)) one("[aria-current]", tree)?.focus();
  sessionStorage.removeItem(OPENED);
  tree.addEventListener("keydown", (event) => {
    const links = all("a", tree), place = links.indexOf(event.target), item = event.target.closest("li");
    if (place < 0 && !(event.target === finder && event.key === "ArrowDown")) return;
    const next = {
      ArrowDown: links[place + 1], ArrowUp: links[place - 1] ?? finder, Home: links[0], End: links.at(-1),
      ArrowRight: item && one(":scope > ul a", item), ArrowLeft: one("a", item?.parentElement.closest("li") ?? make("p", "")),
    }[event.key];
    const opens = event.key === "ArrowRight" && !next && event.target.hasAttribute("data-opens");
    if (opens) { sessionStorage.setItem(OPENED, "yes"); event.target.click(); }
    next?.focus();
    if (opens || next) event.preventDefault();
  });

  let looking = null, pause = 0;
  const look = async () => {
    looking?.abort();
    looking = new AbortController();
    if (!finder.value) return list.replaceChildren();
    try {
      const sent = `${finder.dataset.find}&${new URLSearchParams({ find: finder.value })}`;
      const reply = await fetch(sent, { signal: looking.signal });
      if (!reply.ok) return;
      const { rows } = await reply.json(), found = make("ul", "", { class: "found" });
      for (const row of rows) {
        const line = make("li", ""), link = make("a", `${row.level} `, { href: row.address });
        link.append(make("bdi", row.name));
        line.append(link);
        if (row.above) line.append(make("span", ` of ${row.above}`, { class: "note" }));
        found.append(line);
      }
      if (!rows.length) found.append(make("li", "None of yours begins with this.", { class: "note" }));
      list.replaceChildren(found);
      say(`${rows.length} found`);
    } catch (error) { if (error.name !== "AbortError") throw error; }
  };
  finder?.addEventListener("input", () => { clearTimeout(pause); pause = setTimeout(look, WAIT_MS); });
}

// -- the bet of the guarantee: the formulas are those of sfumato.explain.losses and sfumato.web.guarantee_page --

const chance = (epsilon, delta, before) => 1 - (1 - delta) / (1 + before / (1 - before) * Math.exp(Math.min(epsilon, 700)));
const outOf100 = (share) => Math.ceil(Math.round(share * 1e8) / 1e6);
const bet = one("[data-bet]");
if (bet) {
  const at = (dot) => 1e4 * dot.cy.baseVal.value + dot.cx.baseVal.value, weak = one("[data-weak]");
  const dots = all(".dots circle").sort((a, b) => at(a) - at(b)), fields = [bet.elements.epsilon, bet.elements.before];
  const show = () => {
    if (!bet.checkValidity()) return;
    const [epsilon, before] = fields.map((field) => field.valueAsNumber);
    const after = outOf100(chance(epsilon, Number(bet.elements.delta.value), before / 100));
    dots.forEach((dot, place) => dot.setAttribute("class", place < Math.floor(before) ? "dot8" : place < after ? "dot1" : "edge0"));
    one(".dots").setAttribute("aria-label", `${after} of 100 dots are filled`);
    for (const each of all("[data-after]")) each.textContent = after;
    one("[data-before]").textContent = before;
    [one("[data-even]").hidden, one("[data-belief]").hidden] = [before !== 50, before === 50];
    weak.hidden = epsilon < Number(weak.dataset.weak);
  };
  const places = make("datalist", "", { id: "places" });
  places.append(...all("[data-marks] [data-value]").map((each) => make("option", "", { value: each.dataset.value })));
  bet.append(places);
  for (const field of fields) {
    const looks = field.name === "epsilon" ? { max: bet.dataset.top, step: 0.01, list: "places" } : { max: field.max, step: 1 };
    const slider = make("input", "", { type: "range", min: field.min, "aria-label": field.labels[0].textContent, ...looks });
    slider.value = field.value;
    slider.addEventListener("input", () => { field.value = slider.value; show(); });
    slider.addEventListener("change", () => say(one("p.asked:not([hidden])").textContent));
    field.addEventListener("input", () => { slider.value = field.value; show(); });
    field.after(slider);
  }
}

// -- a check of the ledger that is running --

const checking = one("[data-running]");
const looking = checking && setInterval(async () => {
  const reply = await fetch(checking.dataset.running).catch(() => null);
  const job = reply?.ok && !reply.redirected ? await reply.json() : null, bar = one("progress", checking);
  if (reply && job?.state !== "running") { clearInterval(looking); location.reload(); }
  else if (job) [bar.max, bar.value, one("span", checking).textContent] = [job.of || 1, job.done, `${job.done} of ${job.of} rows`];
}, 2000);
