'use strict';
// Loss with the held-out losses, gradient norm, learning rate and tokens/s over steps. All charts show the same steps and are
// smoothed alike, but for the learning rate, which is computed and not measured.

const kCurveCharts = {};

function mergedWords(stride) { return stride > 1 ? ` (mean of ${stride} steps)` : ''; }

function zoomCharts(range) {
  for (const chart of Object.values(kCurveCharts)) chart.setZoom(range);
  byId('all-steps').hidden = range === null;
}

function lossOptions() {
  const {loss, held_out: heldOut, bigram_entropy: bigram} = data.curves;
  const say = (at) => {
    const step = loss.step[at];
    let words = `step ${step}${mergedWords(loss.stride)}: ${lossText(loss.loss[at])}`;
    const taken = heldOut.filter((point) => point.step <= step).pop();
    if (taken) words += `, held out ${lossText(taken.loss)}`;
    return words;
  };
  return {
    title: heldOut.length ? 'Loss (dots: held out)' : 'Loss', yTitle: 'loss (nats per token)',
    steps: loss.step, stride: loss.stride, lines: [{name: 'loss', values: loss.loss, isSmoothed: true}],
    points: heldOut.map((point) => ({step: point.step, value: point.loss, name: 'held-out loss'})),
    rules: isNumber(bigram) ? [{value: bigram, name: 'bigram entropy of the held-out text'}] : [],
    text: trimmed, say,
    empty: 'No losses: no step has finished, or this was not a training run.',
    blank: 'No loss to draw: no step has a finite loss.',
  };
}

function normOptions() {
  const {loss} = data.curves;
  const say = (at) => `step ${loss.step[at]}${mergedWords(loss.stride)}: ${isNumber(loss.grad_norm[at]) ? trimmed(loss.grad_norm[at], 4) : 'not finite'}`;
  return {
    title: 'Gradient norm, before clipping', yTitle: 'gradient norm (no unit)', steps: loss.step, stride: loss.stride, fromZero: true,
    lines: [{name: 'gradient norm', values: loss.grad_norm, isSmoothed: true}], text: trimmed, say,
    empty: 'No gradient norms: no step has finished, or this was not a training run.',
    blank: 'No gradient norm to draw: no step has a finite norm.',
  };
}

function rateOptions() {
  const {loss} = data.curves;
  const say = (at) => `step ${loss.step[at]}${mergedWords(loss.stride)}: ${isNumber(loss.learning_rate[at]) ? smallText(loss.learning_rate[at], 4) : 'not reported'}`;
  return {
    title: 'Learning rate', yTitle: 'learning rate (no unit)', steps: loss.step, stride: loss.stride, fromZero: true,
    lines: [{name: 'learning rate', values: loss.learning_rate}], text: smallText, say,
    empty: 'No learning rates: no step has finished, or this was not a training run.',
    blank: 'No learning rate to draw: the files of the run contain none.',
  };
}

function speedOptions() {
  const {speed} = data.curves;
  const say = (at) => `step ${speed.step[at]}${mergedWords(speed.stride)}: ${countText(speed.tokens_per_second[at])} tokens/s, exposed ${shareText(speed.exposed_share[at])}`;
  return {
    title: 'Speed of all ranks', yTitle: 'tokens/s', steps: speed.step, stride: speed.stride, fromZero: true,
    lines: [{name: 'tokens/s', values: speed.tokens_per_second, isSmoothed: true}], text: rateTickText, say,
    empty: 'No speed: metrics.jsonl contains no step.', blank: 'No speed: metrics.jsonl contains no step times.',
  };
}

const kCurves = {'loss-chart': lossOptions, 'speed-chart': speedOptions, 'norm-chart': normOptions, 'rate-chart': rateOptions};

function smoothCurves() {
  const weight = Number(byId('smoothing').value);
  byId('smoothing-value').textContent = weight === 0 ? 'off' : weight.toFixed(2);
  for (const chart of Object.values(kCurveCharts)) chart.smooth(weight);
}

function listenToCurves() {
  for (const [id, options] of Object.entries(kCurves)) kCurveCharts[id] = new Chart(byId(id), {...options(), onZoom: zoomCharts});
  const choose = (isLog) => {
    byId('log').setAttribute('aria-pressed', String(isLog));
    byId('linear').setAttribute('aria-pressed', String(!isLog));
    for (const id of ['loss-chart', 'norm-chart']) kCurveCharts[id].setLog(isLog);
  };
  byId('log').addEventListener('click', () => choose(true));
  byId('linear').addEventListener('click', () => choose(false));
  byId('all-steps').addEventListener('click', () => zoomCharts(null));
  byId('smoothing').addEventListener('input', smoothCurves);
  smoothCurves();
}

// Draws the curves of the data. Zoom, scale and smoothing remain.
function showCurves() {
  if (!kCurveCharts['loss-chart']) { listenToCurves(); return; }
  for (const [id, options] of Object.entries(kCurves)) kCurveCharts[id].set(options());
}
