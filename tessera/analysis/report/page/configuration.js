'use strict';
// The options of the run: those that differ from their defaults first, the others folded.

function optionRows(options, cells) {
  return options.map((option) => make('tr', {}, make('th', {scope: 'row', text: option.name}),
                                      ...cells.map((cell) => make('td', {class: cell === 'help' ? 'help' : null, text: option[cell]}))));
}

function optionTable(headings, rows) {
  return make('div', {class: 'scroll', tabindex: '0', role: 'region', 'aria-label': headings.join(', ')},
              make('table', {class: 'options'}, make('thead', {}, make('tr', {}, ...headings.map((text) => make('th', {scope: 'col', text})))),
                   make('tbody', {}, ...rows)));
}

function showConfiguration() {
  const box = byId('configuration');
  const words = byId('configuration-words');
  const isOpen = Boolean(box.querySelector('details[open]'));
  const changed = data.configuration.filter((option) => option.default !== null);
  const others = data.configuration.filter((option) => option.default === null);
  box.replaceChildren();
  if (data.configuration.length === 0) {
    words.textContent = 'No configuration: tessera train writes it to config.toml, and this directory has none.';
    return;
  }
  words.textContent = changed.length
    ? `${wholeText(changed.length)} of ${wholeText(data.configuration.length)} options differ from their defaults.`
    : `${wholeText(data.configuration.length)} options; config.toml does not state defaults.`;
  if (changed.length) box.append(optionTable(['Option', 'Value', 'Default', 'Meaning'], optionRows(changed, ['value', 'default', 'help'])));
  if (others.length === 0) return;
  box.append(make('details', {open: isOpen || changed.length === 0},
                  make('summary', {text: changed.length ? `${wholeText(others.length)} option${others.length === 1 ? '' : 's'} with the default value` : 'All options'}),
                  optionTable(['Option', 'Value', 'Meaning'], optionRows(others, ['value', 'help']))));
}
