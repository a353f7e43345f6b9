'use strict';
// Numbers as people read them, and elements made without markup: text of a run is only ever put in as textContent.

let data = JSON.parse(document.getElementById('data').textContent);
const byId = (id) => document.getElementById(id);

// make('p', {class: 'note', text: words}, child, ...)
function make(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name === 'text') element.textContent = value;
    else element.setAttribute(name, value === true ? '' : value);
  }
  element.append(...children);
  return element;
}

function makeSvg(tag, attributes, text) {
  const element = document.createElementNS('http://www.w3.org/2000/svg', tag);
  for (const [name, value] of Object.entries(attributes || {})) element.setAttribute(name, value);
  if (text !== undefined) element.textContent = text;
  return element;
}

function painted(element, color, width) {
  element.style.background = color;
  if (width !== undefined) element.style.width = width;
  return element;
}

const isNumber = (value) => typeof value === 'number' && Number.isFinite(value);
const trimmed = (value, digits) => String(Number(value.toPrecision(digits)));

// Hundredths are cut, not rounded, as the terminal does it: both show the same, and nothing is shown larger than it is.
function bytesText(nbytes) {
  if (!isNumber(nbytes)) return '–';
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB', 'EiB'];
  let place = 0;
  while (nbytes >= 1024 && place < units.length - 1) { nbytes /= 1024; place += 1; }
  return `${place === 0 ? nbytes : Math.floor(nbytes * 100) / 100}\u00a0${units[place]}`;
}

function countText(value, digits = 3) {
  if (!isNumber(value)) return '–';
  const size = Math.abs(value);
  for (const [limit, unit] of [[1e12, '\u00a0T'], [1e9, '\u00a0G'], [1e6, '\u00a0M'], [1e4, '\u00a0k']]) {
    if (size >= limit) return trimmed(value / (unit === '\u00a0k' ? 1e3 : limit), digits) + unit;
  }
  return size >= 100 ? String(Math.round(value)) : trimmed(value, digits);
}

// "0.003", "2.5e-7"; values of one axis are written alike, by the largest of them.
function smallText(value, digits = 3, largest = Math.abs(value)) {
  return value === 0 || largest >= 1e-3 ? trimmed(value, digits) : Number(value.toPrecision(digits)).toExponential();
}

function rateTickText(value, digits, largest) {
  return largest >= 1e4 && largest < 1e6 && value !== 0 ? `${trimmed(value / 1e3, digits)}\u00a0k` : countText(value, digits);
}

const timeText = (seconds) => isNumber(seconds) ? `${new Date(1000 * seconds).toISOString().slice(0, 19).replace('T', ' ')} UTC` : '–';

const wholeText = (value) => isNumber(value) ? Math.round(value).toLocaleString('en-US') : '–';
const lossText = (value) => isNumber(value) ? value.toFixed(4) : 'not finite';
const shareText = (value) => isNumber(value) ? `${(100 * value).toFixed(value < 0.1 ? 2 : 1)}\u00a0%` : '–';

function secondsText(seconds) {
  if (!isNumber(seconds)) return '–';
  const size = Math.abs(seconds);
  if (size === 0) return '0 s';
  if (size < 1e-6) return `${trimmed(seconds * 1e9, 3)}\u00a0ns`;
  if (size < 1e-3) return `${trimmed(seconds * 1e6, 3)}\u00a0µs`;
  if (size < 1) return `${trimmed(seconds * 1e3, 3)}\u00a0ms`;
  if (size < 120) return `${trimmed(seconds, 3)}\u00a0s`;
  if (size < 7200) return `${Math.floor(seconds / 60)} min ${Math.round(seconds % 60)} s`;
  return `${Math.floor(seconds / 3600)} h ${Math.round((seconds % 3600) / 60)} min`;
}

const rateText = (bytes) => isNumber(bytes) ? `${bytes >= 1e9 ? trimmed(bytes / 1e9, 3) + ' GB' : bytes >= 1e6 ? trimmed(bytes / 1e6, 3) + ' MB' : trimmed(bytes / 1e3, 3) + ' kB'}/s` : '–';

// A sentence begins with a capital.
const sentenceText = (text) => text.charAt(0).toUpperCase() + text.slice(1);

const ownerColor = (place) => `var(--owner-${place % 8})`;

// Owners in the order of metrics.jsonl, then those that only a summary names.
let ownerOrder = [];
function orderOwners() {
  ownerOrder = [...data.memory.owners];
  for (const peak of data.memory.peaks) {
    for (const owner of Object.keys(peak.measured)) {
      if (owner !== 'total' && !ownerOrder.includes(owner)) ownerOrder.push(owner);
    }
  }
}

// What the page does when its colours change.
const onTheme = [];
