'use strict';
// Memory of a rank after each step, by owner, and its peak: who had how much, and what the plan had said.

let memoryChart = null;

function totalOf(owners) {
  return isNumber(owners.total) ? owners.total : Object.values(owners).reduce((sum, each) => sum + each, 0);
}

function peakWords(peak) {
  const total = totalOf(peak.measured);
  const owners = Object.entries(peak.measured).filter(([owner]) => owner !== 'total').sort((a, b) => b[1] - a[1]);
  let words = `Rank ${peak.rank} had ${bytesText(total)} in use at its peak, within a step.`;
  if (owners.length && total > 0) {
    words += ` The largest owner is ${owners[0][0]}, with ${bytesText(owners[0][1])} at its own peak, which may be at another time.`;
  }
  const planned = totalOf(peak.predicted);
  if (planned > 0) {
    const off = total / planned - 1;
    words += Math.abs(off) < 0.0005 ? ' The plan predicted the same.' : ` The plan predicted ${bytesText(planned)}, ${Math.abs(100 * off).toFixed(1)}\u00a0% ${off > 0 ? 'less' : 'more'}.`;
  }
  return words;
}

function peakTable(peak) {
  const rows = ownerOrder.filter((owner) => owner in peak.measured);
  const most = Math.max(...rows.map((owner) => Math.max(peak.measured[owner], peak.predicted[owner] || 0)), 1);
  const body = make('tbody', {});
  rows.forEach((owner) => {
    const bar = make('div', {class: 'bar', 'aria-hidden': 'true'},
                     painted(make('i', {}), ownerColor(ownerOrder.indexOf(owner)), `${100 * peak.measured[owner] / most}%`));
    if (isNumber(peak.predicted[owner])) {
      const tick = make('b', {});
      tick.style.left = `calc(${100 * peak.predicted[owner] / most}% - 1px)`;
      bar.append(tick);
    }
    body.append(make('tr', {}, make('td', {text: owner}, bar), make('td', {text: bytesText(peak.measured[owner])}),
                     make('td', {text: bytesText(peak.predicted[owner])})));
  });
  body.append(make('tr', {}, make('td', {text: 'total'}), make('td', {text: bytesText(totalOf(peak.measured))}),
                   make('td', {text: bytesText(totalOf(peak.predicted))})));
  return make('table', {}, make('thead', {}, make('tr', {}, make('th', {scope: 'col', text: 'Peak of each owner'}),
                                                  make('th', {scope: 'col', text: 'measured'}), make('th', {scope: 'col', text: 'planned'}))), body);
}

function showMemoryOf(rank) {
  const peak = data.memory.peaks.find((each) => each.rank === rank);
  const lines = data.memory.ranks.find((each) => each.rank === rank);
  byId('memory-words').textContent = peak ? peakWords(peak) : 'No peak: it is in summary.json, which a run writes at its end.';
  byId('peak').hidden = !peak;
  byId('peak').replaceChildren(...(peak ? [peakTable(peak)] : []));
  const areas = lines ? data.memory.owners.map((name, at) => ({name, values: lines.nbytes[at], color: ownerColor(at)})) : [];
  const say = (at) => `step ${lines.step[at]}: ${bytesText(areas.reduce((sum, area) => sum + area.values[at], 0))}`;
  const options = {
    title: 'After each step, by owner', yTitle: 'memory in use (bytes)', steps: lines ? lines.step : [], stride: lines && lines.stride > 1 ? 2 * lines.stride : 1,
    areas, isBytes: true, text: bytesText, say,
    rules: peak ? [{value: totalOf(peak.measured), name: `peak within steps, ${bytesText(totalOf(peak.measured))}`}] : [],
    empty: 'No memory: metrics.jsonl contains no step of this rank.',
  };
  if (memoryChart) memoryChart.set(options);
  else memoryChart = new Chart(byId('memory-chart'), options);
  byId('memory-legend').replaceChildren(...areas.map((area) => make('li', {}, painted(make('span', {class: 'swatch'}), area.color), area.name)));
}

// Draws the memory of the chosen rank; first that of the largest peak.
function showMemory() {
  const ranks = [...new Set([...data.memory.ranks, ...data.memory.peaks].map((each) => each.rank))].sort((a, b) => a - b);
  const select = byId('memory-rank');
  select.parentElement.hidden = ranks.length === 0;
  document.querySelector('#memory-section .pair').hidden = ranks.length === 0;
  if (ranks.length === 0) {
    byId('memory-words').textContent = 'The memory of this run is unknown: neither metrics.jsonl nor summary.json contains it.';
    return;
  }
  const chosen = Number(select.value);
  const isChosen = select.options.length > 0 && ranks.includes(chosen);
  select.replaceChildren(...ranks.map((rank) => make('option', {value: rank, text: rank})));
  let most = data.memory.peaks[0];
  for (const peak of data.memory.peaks) if (totalOf(peak.measured) > totalOf(most.measured)) most = peak;
  select.value = String(isChosen ? chosen : most ? most.rank : ranks[0]);
  select.onchange = () => showMemoryOf(Number(select.value));
  showMemoryOf(Number(select.value));
}
