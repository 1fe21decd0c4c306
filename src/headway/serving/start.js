"use strict";
// Asks this server what it serves, and sends it what is typed. Answers become text nodes, never markup.
const at = (id) => document.getElementById(id);
let models = [], paths = {}, key = "", stopper = null;
at("base").textContent = `${location.origin}/v1`;

const WRITES = {
  "/v1/completions": (text, model) => ({ prompt: text, max_tokens: Math.min(64, (model.context ?? 128) >> 1), stream: true }),
  "/v1/chat/completions": (text) => ({ messages: [{ role: "user", content: text }], stream: true }),
};
const QUESTION = '{"context": "The cat sat on the mat.", "question": "Where did the cat sit?"}';

function headers() {
  return key ? { authorization: `Bearer ${key}` } : {};
}

function say(text, wrong = false) {
  at("state").textContent = text;
  at("state").className = wrong ? "wrong" : "";
}

async function asked(path, options = {}) {
  const answer = await fetch(path, { ...options, headers: { ...headers(), ...(options.headers ?? {}) } });
  if (answer.ok) return answer;
  const text = await answer.text();
  let message = text;
  try {
    const error = JSON.parse(text).error;
    message = error.message ?? error;
  } catch {
    // not JSON
  }
  throw Object.assign(new Error(`${answer.status}: ${message}`), { status: answer.status });
}

async function load() {
  try {
    models = (await (await asked("/v1/models")).json()).data;
    paths = (await (await asked("/openapi.json")).json()).paths;
  } catch (error) {
    at("locked").hidden = error.status !== 401;
    at("served").hidden = true;
    say(error.status === 401 && !key ? "The models of this server need an API key." : error.message, Boolean(key) || error.status !== 401);
    return;
  }
  at("locked").hidden = true;
  const loading = models.filter((each) => each.task === null);
  if (loading.length) {
    say(`${loading.map((each) => each.id).join(", ")}: being loaded …`);
    setTimeout(load, 1000);
    return;
  }
  say("");
  at("served").hidden = false;
  at("models").replaceChildren(...models.map(row));
  at("model").replaceChildren(...models.map((each) => new Option(each.id)));
  choose();
}

function row(model) {
  const exact = model.exact === null ? "" : model.exact ? "yes" : "no";
  const made = document.createElement("tr");
  for (const value of [model.id, model.task, model.precision, exact, model.context ?? ""]) {
    made.append(Object.assign(document.createElement("td"), { textContent: value }));
  }
  return made;
}

function chosen() {
  return models.find((each) => each.id === at("model").value);
}

function choose() {
  const model = chosen();
  const writing = model.writes ? Object.keys(WRITES) : [];
  if (!model.chats) writing.splice(1);
  if (model.chats) writing.reverse();
  at("endpoint").replaceChildren(...[...writing, ...model.verbs.map((verb) => `/v1/${verb}`)].map((path) => new Option(path)));
  show();
}

function described() {
  return paths[at("endpoint").value]?.post;
}

function takesFile() {
  return Boolean(described()?.requestBody.content["multipart/form-data"]) && !WRITES[at("endpoint").value];
}

function takesObject() {
  return described()?.requestBody.content["application/json"].schema.properties.input?.oneOf?.[0].type === "object";
}

function body() {
  const path = at("endpoint").value, text = at("text").value, model = at("model").value;
  if (WRITES[path]) return { model, ...WRITES[path](text, chosen()) };
  return { model, input: takesObject() ? JSON.parse(text) : text };
}

function show() {
  const file = takesFile();
  at("about").textContent = described()?.summary ?? "";
  at("words").hidden = file;
  at("files").hidden = !file;
  if (takesObject() && !at("text").value.startsWith("{")) at("text").value = QUESTION;
  curl();
}

const quoted = (text) => `'${text.replaceAll("'", String.raw`'\''`)}'`;

function curl() {
  const secret = key ? " -H 'Authorization: Bearer KEY'" : "";
  const to = `curl ${location.origin}${at("endpoint").value}${secret}`;
  if (takesFile()) {
    at("curl").textContent = `${to} -F model=${at("model").value} -F file=@${at("file").files[0]?.name ?? "FILE"}`;
    return;
  }
  try {
    at("curl").textContent = `${to} -H 'Content-Type: application/json' -d ${quoted(JSON.stringify(body()))}`;
  } catch {
    at("curl").textContent = "the input is not JSON";
  }
}

async function send(event) {
  event.preventDefault();
  const path = at("endpoint").value;
  stopper = new AbortController();
  at("answer").textContent = "";
  at("send").disabled = true;
  at("stop").hidden = false;
  at("problem").textContent = "";
  try {
    const options = { method: "POST", signal: stopper.signal };
    if (takesFile()) {
      if (!at("file").files.length) throw new Error("choose a file first");
      options.body = new FormData();
      options.body.append("model", at("model").value);
      options.body.append("file", at("file").files[0]);
    } else {
      options.body = JSON.stringify(body());
      options.headers = { "content-type": "application/json" };
    }
    const answer = await asked(path, options);
    if (WRITES[path]) await read(answer);
    else at("answer").textContent = JSON.stringify((await answer.json()).results, null, 2);
  } catch (error) {
    if (error.name !== "AbortError") at("problem").textContent = error.message;
  }
  at("send").disabled = false;
  at("stop").hidden = true;
}

async function read(answer) {
  const decoder = new TextDecoder();
  let rest = "";
  for (const reader = answer.body.getReader(); ; ) {
    const { done, value } = await reader.read();
    if (done) return;
    rest += decoder.decode(value, { stream: true });
    const events = rest.split("\n\n");
    rest = events.pop();
    for (const event of events) {
      const data = event.replace(/^data: /, "");
      if (data === "[DONE]") return;
      const found = JSON.parse(data);
      if (found.error) throw new Error(found.error.message);
      at("answer").append(found.choices[0]?.text ?? found.choices[0]?.delta?.content ?? "");
    }
  }
}

at("locked").addEventListener("submit", (event) => {
  event.preventDefault();
  key = at("key").value;
  load();
});
at("model").addEventListener("change", choose);
at("endpoint").addEventListener("change", show);
at("text").addEventListener("input", curl);
at("file").addEventListener("change", curl);
at("form").addEventListener("submit", send);
at("stop").addEventListener("click", () => stopper?.abort());
load();
