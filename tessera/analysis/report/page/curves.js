'use strict';
// Loss with the held-out losses, and tokens a second.

function mergedWords(stride) { return stride > 1 ? ` (mean of ${stride} steps)` : ''; }

function lossChart() {
  const {loss, held_out: heldOut, bigram_entropy: bigram} = data.curves;
  const say = (at) => {
    const step = loss.step[at];
    let words = `step ${step}${mergedWords(loss.stride)}: ${lossText(loss.loss[at])}`;
    if (isNumber(loss.grad_norm[at])) words += `, gradient norm ${trimmed(loss.grad_norm[at], 3)}`;
    const taken = heldOut.filter((point) => point.step <= step).pop();
    if (taken) words += `, held out ${lossText(taken.loss)}`;
    return words;
  };
  return new Chart(byId('loss-chart'), {
    title: heldOut.length ? 'Loss, nats per token (dots: held out)' : 'Loss, nats per token',
    steps: loss.step, lines: [{name: 'loss', values: loss.loss}],
    points: heldOut.map((point) => ({step: point.step, value: point.loss, name: 'held-out loss'})),
    rules: isNumber(bigram) ? [{value: bigram, name: 'bigram entropy of the held-out text'}] : [],
    text: (value) => trimmed(value, 3), say,
    empty: 'No losses: no step has finished, or this was not a training run.',
    blank: 'No loss to draw: no step has a finite loss.',
  });
}

function speedChart() {
  const {speed} = data.curves;
  const say = (at) => `step ${speed.step[at]}${mergedWords(speed.stride)}: ${countText(speed.tokens_per_second[at])} tokens/s, exposed ${shareText(speed.exposed_share[at])}`;
  return new Chart(byId('speed-chart'), {
    title: 'Tokens/s, all ranks', steps: speed.step, fromZero: true,
    lines: [{name: 'tokens/s', values: speed.tokens_per_second}], text: countText, say,
    empty: 'No speed: metrics.jsonl contains no step.', blank: 'No speed: metrics.jsonl contains no step times.',
  });
}

function showCurves() {
  const chart = lossChart();
  speedChart();
  const choose = (isLog) => {
    byId('log').setAttribute('aria-pressed', String(isLog));
    byId('linear').setAttribute('aria-pressed', String(!isLog));
    chart.setLog(isLog);
  };
  byId('log').addEventListener('click', () => choose(true));
  byId('linear').addEventListener('click', () => choose(false));
}
