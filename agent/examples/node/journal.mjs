// The journal: what was begun, on disk before it is begun, so that no command runs twice, whenever the process dies.
import { appendFileSync, closeSync, fsyncSync, openSync, readFileSync, renameSync } from "node:fs";

const keptFor = 24 * 3_600_000; // ms; the contract asks for an hour
const compactAfter = 10_000; // lines

export class Journal {
  #path; #file; #lines;
  #records = new Map(); // by command id: { id, print, at, result }, and ended while this process runs it

  constructor(path) {
    this.#path = path;
    for (const line of lines(path)) {
      let entry;
      try { entry = JSON.parse(line); } catch { continue; } // torn by a crash, so nothing was begun on it
      if (entry.dropped) this.#records.delete(entry.id);
      else this.#records.set(entry.id, { ...this.#records.get(entry.id), ...entry });
    }
    this.#compact();
  }

  get(id) { return this.#records.get(id); }

  // begin records that a command is about to run. It throws when that can't be recorded; nothing may run then.
  begin(id, print) {
    if (this.#lines > compactAfter) this.#compact();
    const record = { id, print, at: Date.now() };
    this.#append(record);
    record.ended = new Promise((resolve) => { record.end = resolve; });
    this.#records.set(id, record);
    return record;
  }

  // finish records the outcome. Should that fail, this process still knows it; the next one answers "may have run".
  finish(record, result) {
    record.result = result;
    record.end();
    this.#append({ id: record.id, result });
  }

  // drop takes back a command that was not begun after all. Should that fail, it counts as begun: the safe side.
  drop(record) {
    record.end();
    this.#append({ id: record.id, dropped: true });
    this.#records.delete(record.id);
  }

  #append(entry) {
    appendFileSync(this.#file, "\n" + JSON.stringify(entry) + "\n"); // the one before may have come to half a line
    fsyncSync(this.#file);
    this.#lines++;
  }

  // compact writes what is still to be known to a new file, and only then lets it take the old one's place.
  #compact() {
    for (const [id, { at }] of this.#records) if (Date.now() - at > keptFor) this.#records.delete(id);
    const next = openSync(this.#path + ".new", "w", 0o600);
    for (const { id, print, at, result } of this.#records.values()) appendFileSync(next, JSON.stringify({ id, print, at, result }) + "\n");
    fsyncSync(next);
    closeSync(next);
    if (this.#file !== undefined) closeSync(this.#file);
    renameSync(this.#path + ".new", this.#path);
    this.#file = openSync(this.#path, "a", 0o600);
    this.#lines = this.#records.size;
  }
}

function lines(path) {
  try {
    return readFileSync(path, "utf8").split("\n").filter(Boolean);
  } catch (error) {
    if (error.code === "ENOENT") return [];
    throw error; // not knowing what was begun, an agent must not start
  }
}
