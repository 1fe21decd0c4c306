import assert from "node:assert/strict";
import { test } from "node:test";
import { isChoices, isRight, typedNumber, type Question } from "../src/core/question.ts";
import { STOPS, TOURS, toursOf } from "../src/core/tour.ts";
import { Page } from "../src/page.ts";
import { near, numbers } from "./numbers.ts";

/** Each stop of each tour of a page, with what it selects selected. */
function* walked(page: Page) {
  for (const tour of toursOf(page))
    for (const { name } of tour.stops) {
      const stop = STOPS[name];
      if (stop.select) page.state.set(stop.select(page));
      yield { tour, name, text: stop.text(page), question: stop.question(page) as Question };
    }
}

test("every tour has eight to twelve stops on a translation, and at least four stops anywhere", () => {
  const found = toursOf(new Page(numbers.pages.translation));
  assert.deepEqual(
    found.map(({ id }) => id),
    TOURS.map(({ id }) => id),
  );
  for (const { id, stops } of found) assert.ok(stops.length >= 8 && stops.length <= 12, `${id}: ${stops.length} stops`);
  for (const page of Object.values(numbers.pages))
    for (const { stops } of toursOf(new Page(page))) assert.ok(stops.length >= 4);
});

test("every stop says and asks something about the run, and its own answer is right", () => {
  for (const [kind, payload] of Object.entries(numbers.pages)) {
    const page = new Page(payload);
    for (const { tour, name, text, question } of walked(page)) {
      const where = `${kind}, ${tour.id}, ${name}`;
      assert.ok(question, where);
      assert.ok(text.length > 40, where);
      assert.doesNotMatch(text + JSON.stringify(question), /NaN|undefined|null|Infinity|\[object/, where);
      for (const [key, value] of Object.entries(page.state.values))
        if (value !== page.state.defaults[key as "head"])
          assert.ok(page.allows(key as "head", value as number), `${where}: ${key} = ${value}`);
      if (isChoices(question)) {
        assert.ok(question.choices.length >= 2 && question.choices.length <= 4, where);
        assert.equal(new Set(question.choices).size, question.choices.length, where);
        assert.equal(question.choices.filter((each) => isRight(question, each)).length, 1, where);
      } else {
        assert.equal(isRight(question, String(question.value)), true, where);
        assert.equal(isRight(question, String(question.value * 1.5 + 1)), false, where);
      }
    }
  }
});

test("what is asked about weights is what PyTorch gave", () => {
  for (const payload of Object.values(numbers.pages)) {
    const page = new Page(payload);
    page.state.set(STOPS.softmax.select?.(page) ?? {});
    const question = STOPS.softmax.question(page),
      { attention, head, i } = page.look(),
      told = attention.reference(head, i);
    assert.ok(question && !isChoices(question) && told);
    const [first, second] = [...told.weights].sort((a, b) => b - a);
    near([question.value / (first / second)], [1], 1e-4);
    const look = STOPS.look.question(page);
    assert.ok(look && isChoices(look));
    assert.equal(
      look.choices[look.right],
      `${page.look().keys[told.weights.indexOf(first)]} (${told.weights.indexOf(first) + 1})`,
    );
  }
});

test("numbers are read as they are written and printed", () => {
  assert.deepEqual(["0,5", " −2.5 ", "1e-3", ".5", "99.8%"].map(typedNumber), [0.5, -2.5, 0.001, 0.5, 99.8]);
  assert.deepEqual(["", "two", "1 2", "0x10", "Infinity"].map(typedNumber), [null, null, null, null, null]);
});
