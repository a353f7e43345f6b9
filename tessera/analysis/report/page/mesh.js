'use strict';
// The mesh: a box for each copy of the model (dp), in it a row for each part of fsdp and a column for each of tp. A cell is a
// rank, its bar what it owns; a click tells more.

const kMaxCells = 2048;

function ownedTotal(owners) { return Object.entries(owners).reduce((sum, [owner, nbytes]) => owner === 'total' ? sum : sum + nbytes, 0); }

function rankCell(rank, isSmall) {
  const cell = make('button', {type: 'button', class: isSmall ? 'cell small' : 'cell', 'aria-pressed': 'false', 'data-rank': rank.rank,
                               'aria-label': `Rank ${rank.rank}, ${bytesText(ownedTotal(rank.owners))}`, text: isSmall ? rank.rank : `rank ${rank.rank}`});
  if (rank.process && !['ended', 'is running'].includes(rank.process.state)) cell.classList.add('bad');
  if (!isSmall) {
    const total = ownedTotal(rank.owners) || 1;
    const stack = make('span', {class: 'stack', 'aria-hidden': 'true'});
    ownerOrder.forEach((owner, at) => stack.append(painted(make('i', {}), ownerColor(at), `${100 * (rank.owners[owner] || 0) / total}%`)));
    cell.append(stack);
  }
  cell.addEventListener('click', () => chooseRank(rank));
  return cell;
}

function chooseRank(rank) {
  for (const cell of document.querySelectorAll('#mesh .cell')) cell.setAttribute('aria-pressed', String(Number(cell.dataset.rank) === rank.rank));
  const box = byId('rank-details');
  box.replaceChildren(make('h3', {text: `Rank ${rank.rank}`}));
  if (rank.place) box.append(make('p', {text: `dp ${rank.place.dp}, fsdp ${rank.place.fsdp}, tp ${rank.place.tp}`}));
  if (rank.process) {
    const where = rank.process.pid ? `: process ${rank.process.pid}${rank.process.host ? ` on ${rank.process.host}` : ''}` : '';
    box.append(make('p', {text: `It ${rank.process.state}${where}`}));
    if (rank.process.reason && rank.process.state !== 'ended') box.append(make('p', {text: rank.process.reason}));
  }
  if (isNumber(rank.step_seconds)) box.append(make('p', {text: `${secondsText(rank.step_seconds)} in steps, ${secondsText(rank.exposed_seconds)} of that waiting for other ranks`}));
  const body = make('tbody', {});
  ownerOrder.forEach((owner, at) => {
    if (!(owner in rank.owners)) return;
    body.append(make('tr', {}, make('td', {}, painted(make('span', {class: 'swatch'}), ownerColor(at)), owner), make('td', {text: bytesText(rank.owners[owner])})));
  });
  if (body.children.length) box.append(make('table', {}, body));
  else box.append(make('p', {text: 'Its memory is unknown: neither metrics.jsonl nor summary.json contains it.'}));
}

function showMesh() {
  const {axes, ranks} = data.mesh;
  const holder = byId('mesh');
  const pressed = holder.querySelector('[aria-pressed=true]');
  holder.replaceChildren();
  document.querySelector('.mesh-pair').hidden = ranks.length === 0;
  if (ranks.length === 0) {
    byId('mesh-words').textContent = 'No ranks found.';
    return;
  }
  const shown = ranks.slice(0, kMaxCells);
  const isSmall = ranks.length > 64;
  byId('mesh-words').textContent = axes
    ? `dp ${axes.dp} × fsdp ${axes.fsdp} × tp ${axes.tp}: ${axes.dp === 1 ? 'one replica' : `${axes.dp} replicas`} of the model, each over ${axes.fsdp * axes.tp} rank${axes.fsdp * axes.tp === 1 ? '' : 's'}.`
    : `${ranks.length} ranks; the mesh is unknown: neither summary.json nor config.toml contains it.`;
  if (shown.length < ranks.length) byId('mesh-words').textContent += ` The first ${shown.length} are shown.`;
  if (!axes) {
    holder.append(make('div', {class: 'copy'}, (() => { const cells = make('div', {class: 'mesh'}); cells.append(...shown.map((rank) => rankCell(rank, isSmall))); return cells; })()));
  } else {
    for (let dp = 0; dp < axes.dp; dp += 1) {
      const members = shown.filter((rank) => rank.place.dp === dp);
      if (members.length === 0) continue;
      const cells = make('div', {class: 'cells'});
      cells.style.gridTemplateColumns = `auto repeat(${axes.tp}, auto)`;
      cells.append(make('span', {}), ...Array.from({length: axes.tp}, (_, tp) => make('span', {text: `tp ${tp}`})));
      for (let fsdp = 0; fsdp < axes.fsdp; fsdp += 1) {
        const row = members.filter((rank) => rank.place.fsdp === fsdp);
        if (row.length) cells.append(make('span', {text: `fsdp ${fsdp}`}));
        row.forEach((rank) => { const cell = rankCell(rank, isSmall); cell.style.gridColumn = String(rank.place.tp + 2); cells.append(cell); });
      }
      holder.append(make('div', {class: 'copy'}, make('h3', {text: `dp ${dp}`}), cells));
    }
  }
  chooseRank((pressed && ranks.find((rank) => rank.rank === Number(pressed.dataset.rank))) || ranks[0]);
}
