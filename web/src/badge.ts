// The badge: what the page computes and shows, beside what PyTorch gave.

import type { Page } from "./page.ts";
import { figures } from "./core/numbers.ts";
import { turns } from "./canvas.ts";

/** The largest of some numbers; a NaN must show. */
interface Compared {
  what: string;
  most: number;
  count: string;
  bound: number;
}

function worst(values: number[]): number {
  return values.reduce((most, value) => (value > most || Number.isNaN(value) ? value : most), 0);
}

/** Rows of weights and outputs, a head at a time. */
async function attentionRows(page: Page): Promise<Compared> {
  const turn = turns(),
    found: number[] = [];
  let rows = 0;
  for (const attention of page.attentions) {
    for (let head = 0; head < attention.heads; head++) {
      found.push(attention.difference(head));
      rows += attention.entry.rows.length;
      await turn();
    }
  }
  return {
    what: "attention",
    most: worst(found),
    count: `${rows.toLocaleString("en")} rows`,
    bound: exact(page) ? 1e-5 : 1e-3,
  };
}

/** Embeddings, positions and streams: some of the numbers shown, as a share of their row's largest. */
async function vectors(page: Page): Promise<Compared> {
  const turn = turns(),
    found: number[] = [];
  let count = 0;
  for (const { tensor, every, values } of page.payload.checks) {
    const { shape, data } = page.open(tensor),
      width = shape[shape.length - 1];
    page.open(values).data.forEach((value: number, n: number) => {
      const at = n * every,
        row = data.subarray(Math.floor(at / width) * width, (Math.floor(at / width) + 1) * width);
      let size = 1e-30;
      for (const each of row) size = Math.max(size, Math.abs(each));
      found.push(Math.abs(data[at] - value) / size);
      count += 1;
    });
    await turn();
  }
  return {
    what: "vectors",
    most: worst(found),
    count: `${count.toLocaleString("en")} numbers`,
    bound: exact(page) ? 1e-6 : 4e-3,
  };
}

/** Probabilities: the softmax of this page and PyTorch's. */
function probabilities(page: Page): Compared {
  const { output } = page.payload;
  if (!output) return { what: "probabilities", most: 0, count: "", bound: 1 };
  const logits = page.open(output.logits),
    shares = page.open(output.shares),
    whole = page.open(output.normaliser),
    K = logits.shape[1];
  const found = Array.from(logits.data, (logit, n) =>
    Math.abs(Math.exp(logit - whole.data[Math.floor(n / K)]) - shares.data[n]),
  );
  return { what: "probabilities", most: worst(found), count: found.length.toLocaleString("en"), bound: 1e-5 };
}

function exact(page: Page) {
  return page.payload.precision === "float32";
}

/** What the page computes and shows, beside what PyTorch gave: within its bounds or not. */
export async function compared(page: Page) {
  const badge = document.getElementById("badge"),
    agreement = document.getElementById("agreement"),
    all = [await attentionRows(page), await vectors(page), probabilities(page)].filter(
      ({ count }) => !/^0?( |$)/.test(count),
    );
  if (!badge || !agreement) return;
  const good = all.every(({ most, bound }) => most <= bound);
  badge.dataset.difference = String(worst(all.filter(({ what }) => what !== "vectors").map(({ most }) => most)));
  for (const { what, most } of all) badge.dataset[what] = String(most);
  badge.classList.add(good ? "good" : "bad");
  badge.textContent = !all.length
    ? "Nothing here to compare with PyTorch"
    : good
      ? "Agrees with PyTorch"
      : "Differs from PyTorch";
  agreement.textContent = all.length
    ? `Largest differences from PyTorch: ${all
        .map(({ what, most, count }) => `${what} ${most ? figures(most, 2) : "0"} (${count})`)
        .join(", ")}.`
    : "";
}
