'use strict';
// The lanes of the timeline as typed arrays over one buffer (see timeline_pack.h), and what of a lane is in sight. Times are
// in units since the beginning.

function bufferOf(base64) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(base64).buffer;
  const text = atob(base64);
  const bytes = new Uint8Array(text.length);
  for (let at = 0; at < text.length; at += 1) bytes[at] = text.charCodeAt(at);
  return bytes.buffer;
}

class TimelineLane {
  constructor(buffer, told, bottomUnits) {
    Object.assign(this, {rank: told.rank, kind: told.kind, depth: told.depth, isDerived: told.is_derived, leftOut: told.left_out, noData: told.no_data});
    this.count = told.count;
    this.begins = new Uint32Array(buffer, told.begin, told.count);
    this.lengths = new Uint32Array(buffer, told.length, told.count);
    this.names = new Uint16Array(buffer, told.name, told.count);
    this.levels = told.levels.map((level) => ({bins: level.bins, busy: new Uint8Array(buffer, level.offset, level.bins)}));
    this.units = bottomUnits;
    this.reach = null;
  }

  // The furthest end of all spans up to each: it never falls, so that the first in sight is found by halving.
  reaches() {
    if (this.reach) return this.reach;
    this.reach = new Float64Array(this.count);
    let far = 0;
    for (let at = 0; at < this.count; at += 1) {
      far = Math.max(far, this.begins[at] + this.lengths[at]);
      this.reach[at] = far;
    }
    return this.reach;
  }

  // [first, end) of the spans that touch [begin, end].
  inSight(begin, end) {
    return [firstWhere(this.count, (at) => this.reaches()[at] >= begin), firstWhere(this.count, (at) => this.begins[at] > end)];
  }

  // The span under a moment: of those that lie over each other the one that began last. Null: none.
  at(moment, slack) {
    const [first, end] = this.inSight(moment - slack, moment + slack);
    for (let at = end - 1; at >= Math.max(first, end - 4096); at -= 1) {
      if (this.begins[at] + this.lengths[at] >= moment - slack) return at;
    }
    return null;
  }

  // The coarsest level whose bins are no wider than `units`; null where all are wider.
  levelFor(units) {
    let found = null;
    for (const level of this.levels) if (this.units / level.bins <= units) found = level;
    return found;
  }
}

function firstWhere(count, holds) {
  let low = 0;
  let high = count;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (holds(middle)) high = middle;
    else low = middle + 1;
  }
  return low;
}

function timelineLanes() {
  const told = data.timeline;
  const buffer = bufferOf(byId('events').textContent.trim());
  return told.lanes.map((lane) => new TimelineLane(buffer, lane, told.span_ns / told.unit_ns));
}
