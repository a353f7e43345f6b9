'use strict';
// The table of collectives. A heading sorts by its column, again the other way round; ties keep the order they had.

const kColumns = [
  {key: 'operation', name: 'Operation', isText: true, text: (row) => row.dtype ? `${row.operation} ${row.dtype}` : row.operation},
  {key: 'group', name: 'Group', isText: true, text: (row) => row.group},
  {key: 'ranks', name: 'Ranks', text: (row) => wholeText(row.ranks)},
  {key: 'count', name: 'Count', text: (row) => wholeText(row.count)},
  {key: 'nbytes', name: 'Bytes', text: (row) => bytesText(row.nbytes)},
  {key: 'bus_bandwidth', name: 'Bus bandwidth', text: (row) => rateText(row.bus_bandwidth)},
  {key: 'skew_median', name: 'Skew, median', text: (row) => secondsText(row.skew_median)},
  {key: 'skew_most', name: 'Skew, maximum', text: (row) => secondsText(row.skew_most)},
  {key: 'exposed_seconds', name: 'Exposed', text: (row) => secondsText(row.exposed_seconds)},
];

function fillCollectives(rows) {
  byId('collectives').tBodies[0].replaceChildren(...rows.map((row) => make('tr', {title: row.members}, ...kColumns.map(
      (column, at) => make(at === 0 ? 'th' : 'td', {scope: at === 0 ? 'row' : null, class: column.isText ? 'text' : null, text: column.text(row)})))));
}

function sortCollectives(column, heads) {
  const head = heads.get(column);
  const isDown = head.getAttribute('aria-sort') === (column.isText ? 'ascending' : 'none') || head.getAttribute('aria-sort') === 'ascending';
  for (const each of heads.values()) each.setAttribute('aria-sort', 'none');
  head.setAttribute('aria-sort', isDown ? 'descending' : 'ascending');
  const rows = [...data.collectives].sort((a, b) => {
    const [left, right] = [a[column.key], b[column.key]];
    if (left === null || right === null) return (left === null) - (right === null);  // what is not known stands last
    const order = column.isText ? String(left).localeCompare(String(right)) : left - right;
    return isDown ? -order : order;
  });
  fillCollectives(rows);
}

function showCollectives() {
  document.querySelector('#collectives-section .scroll').hidden = data.collectives.length === 0;
  if (data.collectives.length === 0) {
    byId('collectives-words').textContent = 'No collectives: the record files contain none.';
    return;
  }
  const heads = new Map();
  for (const column of kColumns) {
    const button = make('button', {type: 'button', text: column.name});
    const head = make('th', {scope: 'col', class: column.isText ? 'text' : null, 'aria-sort': column.key === 'exposed_seconds' ? 'descending' : 'none'}, button);
    heads.set(column, head);
    button.addEventListener('click', () => sortCollectives(column, heads));
  }
  byId('collectives').tHead.rows[0].replaceChildren(...heads.values());
  fillCollectives(data.collectives);
  const {has_kernels: hasKernels, has_rest: hasRest, has_graphs: hasGraphs} = data.timeline || {};
  const rest = !hasKernels || hasGraphs ? 'time in the collective; kernels were not recorded and may have run meanwhile'
    : `time in the collective in which the rank ran no kernel${hasRest ? '; all time in it if kernels were not recorded' : ''}`;
  byId('collectives-words').textContent = `Bytes: sent or received by one rank, whichever is larger. Bus bandwidth: from the arrival of the last rank to the end of the last rank. Skew: from the arrival of the first rank to that of the last. Exposed: over all ranks, ${rest}.`;
}
