// All pages work without this script. It adds local times, keys, live lists and copying.
'use strict'
const $ = (selector, within = document) => within.querySelector(selector)
const $$ = (selector, within = document) => [...within.querySelectorAll(selector)]

// Times are written by the server in UTC. They are shown in the zone of the browser, unless somebody chose UTC; the
// title says UTC always.
const pad = (n, width = 2) => String(n).padStart(width, '0')
const zone = new Intl.DateTimeFormat([], { timeZoneName: 'short' })
const zoneOf = at => zone.formatToParts(at).find(part => part.type === 'timeZoneName').value
const stored = (name, value) => {
  try {
    if (value === undefined) return localStorage.getItem(name)
    localStorage.setItem(name, value)
  } catch { return null }
}
function showTimes(within = document) {
  if (stored('times') === 'utc') return
  for (const time of $$('time', within)) {
    const at = new Date(time.dateTime)
    if (isNaN(at)) continue
    const local = `${at.getFullYear()}-${pad(at.getMonth() + 1)}-${pad(at.getDate())} ${pad(at.getHours())}:${pad(at.getMinutes())}:${pad(at.getSeconds())} ${zoneOf(at)}`
    if (time.matches('.ago, .tiles *')) time.title = `${local} (${time.title})` // the text is relative
    else time.textContent = local
  }
}
// Relative times keep being right while somebody looks at a page.
const roughly = s => s < 60 ? `${s} s` : s < 3600 ? `${Math.floor(s / 60)} min` : s < 48 * 3600 ? `${Math.floor(s / 3600)} h` : `${Math.floor(s / 86400)} days`
setInterval(() => {
  for (const time of $$('time.ago')) {
    const s = (Date.now() - new Date(time.dateTime)) / 1000
    if (Math.abs(s) >= 60) time.textContent = s < 0 ? `in ${roughly(Math.floor(-s))}` : `${roughly(Math.floor(s))} ago`
  }
}, 30000)
function showZone() {
  const place = $('footer p')
  if (!place) return
  const local = Intl.DateTimeFormat().resolvedOptions().timeZone
  if (local === 'UTC') return
  const utc = stored('times') === 'utc'
  const button = document.createElement('button')
  button.className = 'plain'
  button.textContent = utc ? 'Show local times' : 'Show UTC'
  button.onclick = () => { stored('times', utc ? 'local' : 'utc'); location.reload() }
  place.firstChild.textContent = utc ? 'Times are in UTC' : `Times are in ${local}`
  place.append(' ', button)
}

function addCopy(within = document) {
  for (const pre of $$('pre.copy', within)) {
    const button = document.createElement('button')
    button.type = 'button'
    button.textContent = 'Copy'
    button.onclick = async () => {
      try {
        await navigator.clipboard.writeText(pre.textContent)
        button.textContent = 'Copied'
      } catch { getSelection().selectAllChildren(pre) }
    }
    pre.after(button)
  }
}

function dress(within) {
  showTimes(within)
  addCopy(within)
}

// A page that shows something in progress is asked for again while somebody looks at it.
const typing = () => document.activeElement && /^(INPUT|TEXTAREA|SELECT)$/.test(document.activeElement.tagName)
async function refresh() {
  if (document.hidden || typing() || $('details[open]')) return
  const answer = await fetch(location.href, { headers: { Accept: 'text/html' } })
  if (!answer.ok || answer.redirected) return
  const next = new DOMParser().parseFromString(await answer.text(), 'text/html')
  const main = $('main', next)
  if (!main) return
  dress(main)
  $('main').replaceWith(main)
  if (!next.body.dataset.refresh) clearInterval(timer)
}
const every = Number(document.body.dataset.refresh)
const timer = every ? setInterval(() => refresh().catch(() => {}), every * 1000) : 0

// A live list says how many rows are new, and moves none of them. It is closed in hidden tabs.
let source = null
function follow() {
  const query = document.body.dataset.live
  if (!query || document.hidden || source) return
  source = new EventSource('/live?' + query)
  source.addEventListener('new', event => {
    const pill = $('.pill')
    if (!pill) return
    const { count, more, first } = JSON.parse(event.data)
    const anchor = $('a', pill)
    anchor.textContent = `${count}${more ? '+' : ''} new`
    anchor.href = first || location.pathname + location.search
    pill.hidden = false
    document.title = `(${count}${more ? '+' : ''}) ` + document.title.replace(/^\(\d+\+?\) /, '')
  })
  source.addEventListener('arrived', event => { location.assign(JSON.parse(event.data).href) })
  source.addEventListener('end', () => { source.close(); const pill = $('.pill'); if (pill && pill.hidden) { $('a', pill).textContent = 'Paused: load again'; $('a', pill).href = location.pathname + location.search; pill.hidden = false } })
}
document.addEventListener('visibilitychange', () => {
  if (document.hidden && source) { source.close(); source = null } else follow()
})
addEventListener('pagehide', () => source && source.close())

// Keys: g and a letter leads to a page, / to the search, j and k along the rows, enter into one, ? explains.
let going = false
let row = -1
const rows = () => $$('main tbody tr')
function choose(step) {
  const all = rows()
  if (!all.length) return
  row = Math.max(0, Math.min(all.length - 1, row + step))
  all.forEach((r, i) => r.classList.toggle('chosen', i === row))
  all[row].scrollIntoView({ block: 'nearest' })
}
function help() {
  const dialog = document.createElement('dialog')
  const title = document.createElement('h2')
  title.textContent = 'Keys'
  const list = document.createElement('dl')
  const line = (keys, what) => {
    const div = document.createElement('div')
    const dt = document.createElement('dt')
    for (const key of keys) { const kbd = document.createElement('kbd'); kbd.textContent = key; dt.append(kbd, ' ') }
    const dd = document.createElement('dd')
    dd.textContent = what
    div.append(dt, dd)
    list.append(div)
  }
  line(['/'], 'Search')
  line(['j', 'k'], 'Next and previous row')
  line(['Enter'], 'Open the row')
  for (const anchor of $$('nav a[data-key]')) line(['g', anchor.dataset.key], anchor.textContent)
  const close = document.createElement('form')
  close.method = 'dialog'
  const button = document.createElement('button')
  button.textContent = 'Close'
  close.append(button)
  dialog.append(title, list, close)
  dialog.onclose = () => dialog.remove()
  document.body.append(dialog)
  dialog.showModal()
}
document.addEventListener('keydown', event => {
  if (event.ctrlKey || event.metaKey || event.altKey || $('dialog')) return
  if (typing()) { if (event.key === 'Escape') document.activeElement.blur(); return }
  if (going) {
    going = false
    const anchor = $$('nav a[data-key]').find(a => a.dataset.key === event.key)
    if (anchor) { event.preventDefault(); anchor.click() }
    return
  }
  switch (event.key) {
    case 'g': going = true; setTimeout(() => { going = false }, 1500); break
    case '/': event.preventDefault(); $('#q').focus(); break
    case '?': event.preventDefault(); help(); break
    case 'j': choose(1); break
    case 'k': choose(-1); break
    case 'Enter': {
      const anchor = document.activeElement === document.body && row >= 0 && $('a', rows()[row])
      if (anchor) anchor.click()
      break
    }
    case 'Escape': if (location.hash === '#menu') location.hash = ''
  }
})

for (const input of $$('input[data-here]')) input.value = location.pathname + location.search
for (const keys of $$('.keys')) keys.hidden = false
dress(document)
showZone()
follow()
