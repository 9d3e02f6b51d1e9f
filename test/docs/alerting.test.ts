/** The configs of the page on alerting are valid, each with a webhook added. */
import { describe, expect } from "bun:test"
import { load } from "../../src/config/load/Load.ts"
import { options } from "../config/fixture.ts"
