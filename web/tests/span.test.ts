import assert from "node:assert/strict";
import { test } from "node:test";
import { replaced, spanOf } from "../src/core/span.ts";

test("a token is found where it stands in the text, and replaced there alone", () => {
  const words = [" the", " cat", " sees", " the", " dog", "</s>"];
  assert.deepEqual(spanOf("The cat sees the dog", words, 3), [13, 16]);
  assert.equal(replaced("The cat sees the dog", words, 3, "a"), "The cat sees a dog");
  assert.equal(replaced("The cat sees the dog", words, 5, "a"), null);
  const pieces = ["[CLS]", "un", "·believ", "·able", "!", "[SEP]"];
  assert.equal(replaced("Unbelievable!", pieces, 2, "do"), "Undoable!");
  assert.equal(replaced("Unbelievable!", pieces, 0, "x"), null);
  assert.equal(replaced("a b·c", ["a", " ", "b", "·", "c"], 3, "-"), "a b-c");
});

test("pieces that are not those of the text are found nowhere", () => {
  assert.equal(spanOf("naïve dog", ["na", "·<0xC3>", "·ve", " dog"], 3), null);
  assert.equal(spanOf("", ["a"], 0), null);
});
