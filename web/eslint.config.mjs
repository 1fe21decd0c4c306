import tseslint from "typescript-eslint";

export default tseslint.config(
  { ignores: ["node_modules/"] },
  ...tseslint.configs.recommended,
  { rules: { complexity: ["error", 20], eqeqeq: "error", "no-eval": "error", "prefer-const": "error" } },
  {
    files: ["src/core/**"], // computes, and knows no browser
    rules: {
      "no-restricted-globals": [
        "error",
        "document",
        "window",
        "navigator",
        "location",
        "history",
        "fetch",
        "localStorage",
      ],
      "no-restricted-imports": ["error", { patterns: ["../*"] }],
    },
  },
  {
    files: ["src/**"], // text enters the page as text alone
    rules: {
      "no-restricted-properties": [
        "error",
        { property: "innerHTML" },
        { property: "outerHTML" },
        { property: "insertAdjacentHTML" },
      ],
    },
  },
);
