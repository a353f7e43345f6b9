'use strict';
// The head of the page, and the order in which the rest is made: what is above first, the timeline when the page stands.

function showHead() {
  const {run} = data;
  document.title = `${run.name} · Tessera`;
  byId('name').textContent = run.name;
  byId('directory').textContent = run.directory;
  const state = byId('state');
  state.textContent = run.state;
  const kinds = {done: 'good', ended: 'good', running: 'live', stopped: 'bad', failed: 'bad'};
  state.className = `pill ${kinds[run.state] || 'warn'}`;
  byId('made-by').textContent = data.live ? `Created by ${data.made_by}. The page asks tessera view for new data and makes no other network requests.`
    : `Created by ${data.made_by}. This file contains all of its data and makes no network requests.`;
  byId('began').textContent = isNumber(run.began) ? `Started ${timeText(run.began)}` : '';
  byId('tiles').replaceChildren();
  const tile = (name, text, note, id) => {
    if (text !== null) byId('tiles').append(make('div', {id}, make('dt', {text: name}), make('dd', {text}, ...(note ? [make('small', {text: note})] : []))));
  };
  const known = (value, text) => isNumber(value) ? text(value) : null;
  const skipped = (run.skipped_nan || 0) + (run.skipped_spike || 0);
  const planned = plannedSteps();
  const ofPlanned = isNumber(planned) && planned > run.steps ? `of ${wholeText(planned)}` : known(run.tokens, (n) => `${countText(n)} tokens`);
  tile('Steps', known(run.steps, wholeText), skipped ? `${skipped} skipped` : ofPlanned);
  tile('Last loss', known(run.last_loss, lossText), known(run.held_out_loss, (loss) => `held out ${lossText(loss)}`));
  if (isNumber(run.tokens_per_second)) tile('Tokens/s', countText(run.tokens_per_second), 'sum of medians');
  else tile('Tokens/s', known(recentSpeed(), countText), 'recent steps');
  let peak = null;
  for (const each of data.memory.peaks) if (!peak || totalOf(each.measured) > totalOf(peak.measured)) peak = each;
  tile('Peak memory', peak ? bytesText(totalOf(peak.measured)) : null, peak ? `of rank ${peak.rank}` : null);
  tile('Exposed waits', known(run.exposed_share, shareText), 'of all step time');
  tile('Ranks', known(run.world_size, wholeText), known(run.parameters, (n) => `${countText(n)} parameters`));
  tile('Duration', known(run.began, () => '–'), '–', 'duration');
  showTimes(run.ended);
}

// Number of steps that the run is to take; null if unknown.
function plannedSteps() {
  const option = data.configuration.find((each) => each.name === 'train.steps');
  const steps = option ? Number(option.value) : NaN;
  return Number.isInteger(steps) ? steps : null;
}

// Median of the tokens/s of the last steps; null if unknown.
function recentSpeed() {
  const speeds = data.curves.speed.tokens_per_second.slice(-20).filter(isNumber).sort((a, b) => a - b);
  return speeds.length ? speeds[Math.floor(speeds.length / 2)] : null;
}

// The time from the begin of the run until `now`, in seconds since 1970.
function showTimes(now) {
  const {run} = data;
  const tile = byId('duration');
  if (!tile) return;
  const seconds = Math.round(now - run.began);
  const note = isNumber(run.resumed_from) ? `resumed after step ${wholeText(run.resumed_from)}` : 'wall clock';
  tile.lastChild.replaceChildren(isNumber(now) && seconds >= 0 ? secondsText(seconds) : '–', make('small', {text: note}));
}

// "3 of 40 steps were skipped: 2 with a loss or gradient that is not finite, 1 with a spike"; null: none was.
function skippedWords(run) {
  const kinds = [[run.skipped_nan, 'with a loss or gradient that is not finite'], [run.skipped_spike, 'with a spike of the gradient']].filter(([count]) => count > 0);
  if (kinds.length === 0) return null;
  const count = kinds.reduce((sum, [each]) => sum + each, 0);
  const all = isNumber(run.steps) ? ` of ${wholeText(run.steps)}` : '';
  return `${wholeText(count)}${all} steps were skipped: ${kinds.map(([each, what]) => `${wholeText(each)} ${what}`).join(', ')}.`;
}

// What leads is what the run says of itself where it was its own doing that it ended; else what its records show.
function showVerdict() {
  const {verdict, run} = data;
  const box = byId('verdict');
  const isFault = verdict !== null && verdict.fault !== 'none';
  const isOwnEnd = ['stopped', 'interrupted'].includes(run.state);
  const skipped = skippedWords(run);
  const lines = [];
  box.replaceChildren();
  box.className = 'verdict';
  if (run.reason && (isOwnEnd || !isFault)) lines.push(`${sentenceText(run.state)}: ${run.reason}`);
  if (skipped && !isFault) lines.push(skipped);
  if (verdict) {
    const isLead = lines.length === 0;
    lines.push(sentenceText(verdict.sentence));
    if (verdict.advice && (isLead || isFault)) lines.push(sentenceText(verdict.advice));
    if (isFault) lines.push(`Confidence: ${verdict.confidence}.`);
  } else {
    lines.push('No verdict: it requires the record files of the ranks, and none were found.');
  }
  if (run.reason && !isOwnEnd && isFault) lines.push(run.reason);
  if (skipped && isFault) lines.push(skipped);
  if (run.before) lines.push(`Before this world of ${wholeText(run.world_size)}: ${run.before}.`);
  box.append(...lines.map((text) => make('p', {text})));
  if (verdict && verdict.others.length) box.append(make('ul', {}, ...verdict.others.map((other) => make('li', {text: other.sentence}))));
  if (isFault || ['stopped', 'failed'].includes(run.state)) box.classList.add('bad');
  else if (skipped || run.state === 'interrupted') box.classList.add('warn');
  else if (!verdict) box.classList.add('none');
}

// Shows the verdict on a rank that hangs, while it does; null: none hangs.
let verdictBefore;
function showHang(verdict) {
  if (verdict && verdictBefore === undefined) verdictBefore = data.verdict;
  if (!verdict && verdictBefore === undefined) return;
  data.verdict = verdict || verdictBefore;
  if (!verdict) verdictBefore = undefined;
  showVerdict();
}

function showMissing() {
  const lines = [...data.missing];
  if (data.problem_count) lines.push({what: 'problems', why: `${data.problem_count} while reading: ${data.problems.slice(0, 5).join('; ')}${data.problem_count > 5 ? '; ...' : ''}`});
  const box = byId('missing-box');
  box.hidden = lines.length === 0;
  if (lines.length === 0) return;
  box.open = data.missing.length > 0 && lines.length <= 6;
  byId('missing-title').textContent = `Missing data: ${lines.map((line) => line.what).join(', ')}`;
  byId('missing').replaceChildren(...lines.flatMap((line) => [make('dt', {text: line.what}), make('dd', {text: line.why})]));
}

function isDark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === 'dark' : window.matchMedia('(prefers-color-scheme: dark)').matches;
}

function nameTheme() {
  byId('theme').textContent = isDark() ? 'Light' : 'Dark';
  onTheme.forEach((act) => act());
}

function listenForTheme() {
  let kept = null;
  try { kept = localStorage.getItem('tessera-theme'); } catch (_) { kept = null; }  // not of every file
  if (kept === 'dark' || kept === 'light') document.documentElement.dataset.theme = kept;
  byId('theme').addEventListener('click', () => {
    document.documentElement.dataset.theme = isDark() ? 'light' : 'dark';
    try { localStorage.setItem('tessera-theme', document.documentElement.dataset.theme); } catch (_) { /* it is not kept */ }
    nameTheme();
  });
  window.matchMedia('(prefers-color-scheme: dark)').addEventListener('change', nameTheme);
  nameTheme();
}

// Shows all data but the timeline.
function showAll() {
  verdictBefore = undefined;
  orderOwners();
  showHead();
  showVerdict();
  showMissing();
  showCurves();
  showMemory();
  showCollectives();
  showMesh();
  showConfiguration();
}

listenForTheme();
showAll();
// The events stand after this script: they are there once the page is read.
document.addEventListener('DOMContentLoaded', () => requestAnimationFrame(() => {
  showTimeline();
  if (data.live) new Live();
}));
