import { conformance } from "locktender/testing";
// @ts-expect-error: an example in JavaScript
import { harnessOf } from "../../examples/own-engine/conformance.mjs";
import { shared } from "../servers/shared.js";
import { runner } from "../support/runner.js";

// The engine of the page about the engine kit: a compare-and-set store, and the executable rule.

conformance(runner, harnessOf((await shared("redis")).url));
