// The page, from a file or live.

import { live } from "./live.ts";
import { sourceOf } from "./source.ts";
import { View } from "./view.ts";

const source = sourceOf(document);
if (source.live) live(source, source.live);
else source.look({ input: "", written: null, ablated: [], patch: null }).then((payload) => new View().show(payload));
