// A question to the reader with an answer that follows from the run: one of several choices, or a number.

export interface Choices {
  ask: string;
  choices: string[];
  right: number;
  because: string;
}
export interface Amount {
  ask: string;
  value: number;
  within: number; // how far an answer may be off
  because: string;
}
export type Question = Choices | Amount;

export function isChoices(question: Question): question is Choices {
  return "choices" in question;
}

/** What a reader typed as a number: with a comma or a minus sign of print as well; null for anything else. */
export function typedNumber(text: string): number | null {
  const plain = text.trim().replace("−", "-").replace(",", ".").replace(/%$/, "");
  return /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(plain) ? Number(plain) : null;
}

/** Whether an answer is right; null where it is not a number. */
export function isRight(question: Question, answer: string): boolean | null {
  if (isChoices(question)) return answer === question.choices[question.right];
  const given = typedNumber(answer);
  return given === null ? null : Math.abs(given - question.value) <= question.within;
}

/** A question with the right choice among others, in an order that does not tell which it is; at least two differ. */
export function choose(ask: string, right: string, others: string[], because: string, most = 4): Choices | null {
  const rest = [...new Set(others)].filter((each) => each !== right).slice(0, most - 1);
  if (!rest.length) return null;
  const choices = [right, ...rest].sort((a, b) => a.localeCompare(b, "en", { numeric: true }));
  return { ask, choices, right: choices.indexOf(right), because };
}

/** A question for a number, of which so large a share may be missing. */
export function amount(ask: string, value: number, because: string, share = 0.02, least = 0): Amount {
  return { ask, value, within: Math.max(least, Math.abs(value) * share), because };
}
