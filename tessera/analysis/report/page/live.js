'use strict';
// A page that `tessera view` serves of an active run updates itself: it asks for the steps after its cursor every few seconds,
// and for all data once the run has ended or its files were replaced. Zoom, smoothing and choices remain. Curves keep a bounded
// number of points: when they have more, neighbors become one point, their mean.

const kMostPoints = 4000;
const kMostMemoryPoints = 800;
const kPollMs = 2000;
const kSlowPollMs = 15000;
const kIdleSeconds = 300;  // without a write, after which the page asks less often

function meanOf(values) {
  const known = values.filter(isNumber);
  return known.length ? known.reduce((sum, each) => sum + each, 0) / known.length : null;
}

// Joins neighboring points of a table of curves.
function joinPoints(table, columns) {
  const pairs = Array.from({length: Math.ceil(table.step.length / 2)}, (_, at) => [2 * at, Math.min(2 * at + 1, table.step.length - 1)]);
  for (const column of columns) table[column] = pairs.map(([a, b]) => a === b ? table[column][a] : meanOf([table[column][a], table[column][b]]));
  table.step = pairs.map(([, b]) => table.step[b]);
  table.stride *= 2;
  table.tail = null;
}

// Adds a step to a table of curves, whose points are means of `stride` steps. Earlier steps are known already.
function addStep(table, columns, step, values) {
  const count = table.step.length;
  if (count > 0 && step <= table.step[count - 1]) return;
  if (!table.tail || table.tail.length === table.stride) table.tail = [];
  if (table.tail.length === 0) {
    table.step.push(step);
    for (const column of columns) table[column].push(null);
  }
  table.tail.push(values);
  const at = table.step.length - 1;
  table.step[at] = step;
  columns.forEach((column, place) => { table[column][at] = meanOf(table.tail.map((each) => each[place])); });
  if (table.step.length > kMostPoints) joinPoints(table, columns);
}

function addLosses(rows) {
  for (const [step, loss, norm, rate, heldOut] of rows) {
    addStep(data.curves.loss, ['loss', 'grad_norm', 'learning_rate'], step, [loss, norm, rate]);
    const last = data.curves.held_out[data.curves.held_out.length - 1];
    if (isNumber(heldOut) && (!last || last.step < step)) data.curves.held_out.push({step, loss: heldOut});
  }
  if (data.curves.held_out.length > kMostPoints) data.curves.held_out = data.curves.held_out.filter((_, at) => at % 2 === 1);
}

// The lines of the ranks of one step may come in two answers: a step is as slow as its slowest rank.
function addSpeeds(rows) {
  const {speed} = data.curves;
  for (const [step, tokens, seconds, rankSeconds, exposedSeconds] of rows) {
    const rate = seconds > 0 ? tokens / seconds : null;
    const exposed = rankSeconds > 0 ? Math.min(exposedSeconds / rankSeconds, 1) : null;
    const last = speed.step.length - 1;
    if (last >= 0 && speed.step[last] === step && speed.stride === 1) {
      if (isNumber(rate)) speed.tokens_per_second[last] = Math.min(rate, isNumber(speed.tokens_per_second[last]) ? speed.tokens_per_second[last] : rate);
      speed.exposed_share[last] = meanOf([exposed, speed.exposed_share[last]]);
    } else {
      addStep(speed, ['tokens_per_second', 'exposed_share'], step, [rate, exposed]);
    }
  }
}

// A point shows the step with the most bytes of those it covers.
function joinMemory(lines) {
  const sums = lines.step.map((_, at) => lines.nbytes.reduce((sum, bytes) => sum + bytes[at], 0));
  const kept = [];
  for (let at = 0; at < sums.length; at += 2) kept.push(at + 1 < sums.length && sums[at + 1] > sums[at] ? at + 1 : at);
  lines.step = kept.map((at) => lines.step[at]);
  lines.nbytes = lines.nbytes.map((bytes) => kept.map((at) => bytes[at]));
  lines.stride *= 2;
  lines.inLast = lines.stride;
}

function addMemory(owners, rows) {
  const {memory} = data;
  for (const owner of owners) {
    if (memory.owners.includes(owner)) continue;
    memory.owners.push(owner);
    for (const lines of memory.ranks) lines.nbytes.push(lines.step.map(() => 0));
  }
  const places = owners.map((owner) => memory.owners.indexOf(owner));
  for (const [rank, step, bytes] of rows) {
    let lines = memory.ranks.find((each) => each.rank === rank);
    if (!lines) {
      lines = {rank, stride: 1, step: [], nbytes: memory.owners.map(() => [])};
      memory.ranks.push(lines);
      memory.ranks.sort((a, b) => a.rank - b.rank);
    }
    const last = lines.step.length - 1;
    if (last >= 0 && step <= lines.step[last]) continue;
    const values = memory.owners.map(() => 0);
    bytes.forEach((nbytes, at) => { values[places[at]] = nbytes; });
    const isNew = last < 0 || !(lines.inLast < lines.stride);
    const at = isNew ? last + 1 : last;
    lines.inLast = isNew ? 1 : lines.inLast + 1;
    const before = isNew ? -1 : lines.nbytes.reduce((sum, each) => sum + each[at], 0);
    if (values.reduce((sum, each) => sum + each, 0) >= before) {
      lines.step[at] = step;
      lines.nbytes.forEach((each, place) => { each[at] = values[place]; });
    }
    if (lines.step.length > kMostMemoryPoints) joinMemory(lines);
  }
}

class Live {
  constructor() {
    this.cursor = data.live;
    this.isOver = false;
    this.problem = '';
    this.seen();
    this.age = null;
    byId('refresh').hidden = false;
    byId('refresh').addEventListener('click', () => this.refresh());
    document.addEventListener('visibilitychange', () => { if (!document.hidden) this.poll(); });
    this.clock = setInterval(() => this.say(), 1000);
    this.say();
    this.wait();
  }

  seen() { this.seenAt = performance.now(); }
  // Seconds since 1970 by the clock of the server.
  now() { return this.cursor.now + (performance.now() - this.seenAt) / 1000; }

  say() {
    if (this.isOver) return;
    const idle = this.age === null ? null : this.age + (performance.now() - this.seenAt) / 1000;
    byId('live').textContent = this.problem || (idle === null ? 'waiting for the first step' : `updated ${secondsText(Math.round(idle))} ago`);
    showTimes(this.now());
  }

  wait() {
    clearTimeout(this.timer);
    if (this.isOver) return;
    const isSlow = this.problem || this.age > kIdleSeconds;
    this.timer = setTimeout(() => this.poll(), isSlow ? kSlowPollMs : kPollMs);
  }

  async ask(path) {
    const answer = await fetch(path, {cache: 'no-store', credentials: 'same-origin'});
    if (answer.status === 403) {
      this.stop('the server rejects this page; open the address that tessera view printed');
      return null;
    }
    if (!answer.ok) throw new Error(`${answer.status}`);
    return answer.json();
  }

  // One request at a time.
  async poll() {
    clearTimeout(this.timer);
    if (this.isOver || this.isAsking) return;
    if (document.hidden) { this.wait(); return; }
    this.isAsking = true;
    try {
      const update = await this.ask(`update.json?loss=${this.cursor.loss}&metrics=${this.cursor.metrics}`);
      this.problem = '';
      if (update) await this.take(update);
    } catch (_) {
      this.problem = 'no answer from tessera view; trying again';
    } finally {
      this.isAsking = false;
    }
    this.say();
    this.wait();
  }

  async take(update) {
    if (update.is_replaced) { await this.replace(); return; }
    this.cursor = {...update.cursor, now: update.now};
    this.age = update.age;
    this.seen();
    addLosses(update.losses);
    addSpeeds(update.speeds);
    addMemory(update.owners, update.memory);
    if (update.losses.length || update.speeds.length) this.show();
    showHang(update.verdict);
    if (update.has_more) await this.pollAgain();
    else if (!['running', 'unknown'].includes(update.state)) await this.replace();
  }

  async pollAgain() {
    const update = await this.ask(`update.json?loss=${this.cursor.loss}&metrics=${this.cursor.metrics}`);
    if (update) await this.take(update);
  }

  show() {
    const {loss} = data.curves;
    const last = loss.step.length - 1;
    if (last >= 0) {
      data.run.steps = loss.step[last];
      data.run.last_loss = loss.tail ? loss.tail[loss.tail.length - 1][0] : loss.loss[last];
    }
    const heldOut = data.curves.held_out[data.curves.held_out.length - 1];
    if (heldOut) data.run.held_out_loss = heldOut.loss;
    orderOwners();
    showHead();
    showTimes(this.now());
    showCurves();
    showMemory();
  }

  async refresh() {
    if (this.isOver || this.isAsking) return;
    this.isAsking = true;
    byId('refresh').disabled = true;
    try {
      await this.replace();
    } catch (_) {
      this.problem = 'no answer from tessera view; trying again';
    }
    byId('refresh').disabled = false;
    this.isAsking = false;
    this.say();
    this.wait();
  }

  // Shows all data again.
  async replace() {
    const fresh = await this.ask('data.json');
    if (!fresh) return;
    byId('events').textContent = fresh.events;
    delete fresh.events;
    data = fresh;
    if (data.live) {
      this.cursor = data.live;
      this.seen();
    }
    showAll();
    showTimeline();
    if (!data.live) this.stop('');
  }

  stop(words) {
    this.isOver = true;
    clearTimeout(this.timer);
    clearInterval(this.clock);
    byId('live').textContent = words;
    byId('refresh').hidden = true;
  }
}
