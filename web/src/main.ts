// The page: a dashboard of runs, or a look into one, from a file or live.

import { dashboard } from "./dashboard.ts";
import { live } from "./live.ts";
import { sourceOf } from "./source.ts";
import { View } from "./view.ts";

async function begin(): Promise<void> {
  const found = sourceOf(document);
  if (found.kind === "dashboard") dashboard(found.data, null);
  else if (found.kind === "file") await new View().show(await found.source.look());
  else await live(found.source);
}

void begin();
