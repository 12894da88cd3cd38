/* The search of `python -m funcad docs`, before Sphinx's own: the pages that are about the words come first.
   `FIND` is written by the build (docs/extension.py); the arithmetic is that of funcad/commands/manual.py. */

const Find = {
  stems: (text) =>
    (text.replace(/([a-z])([A-Z])/g, "$1 $2").toLowerCase().match(/[a-z_]+|\d+/g) || []).map((word) => {
      const ending = FIND.endings.find((e) => word.endsWith(e) && word.length - e.length >= 3);
      return ending ? word.slice(0, word.length - ending.length) : word;
    }),

  rank: (query) => {
    const own = (object, key) => (Object.hasOwn(object, key) ? object[key] : 0);
    const words = [...new Set(Find.stems(query))];
    const rarity = words.map(
      (word) => 1 / (1 + (FIND.pages.filter((p) => Object.hasOwn(p.counts, word)).length / FIND.pages.length) * 8),
    );
    const scored = FIND.pages.map((page) => {
      let score = page.phrases.includes(query.toLowerCase()) ? 100 : 0;
      words.forEach((word, i) => {
        score += rarity[i] * (own(page.weights, word) + (400 * own(page.counts, word)) / (page.length + 300));
      });
      return [score, page];
    });
    return scored.filter(([score]) => score > 0).sort((a, b) => b[0] - a[0]).map(([, page]) => page);
  },

  /* Sphinx's results, of which the last one is shown first, with ours in front; a name that was typed in full comes second. */
  joined: (query, results) => {
    const [docs, name] = [Search._index.docnames, query.trim()];
    const best = Find.rank(name).filter((page) => docs.includes(page.name)).slice(0, 3);
    const ours = best.map((page) => [page.name, page.title, "", null, 1000, Search._index.filenames[docs.indexOf(page.name)], "title"]);
    const exact = results.filter((r) => r[6] === "object" && (r[1] === name || r[1].endsWith("." + name))).slice(-1);
    const rest = results.filter((r) => !exact.includes(r) && (r[2] || !best.some((page) => page.name === r[0])));
    return [...rest, ...[...ours.slice(0, 1), ...exact, ...ours.slice(1)].reverse()];
  },
};

if (typeof Search !== "undefined") {
  const plain = Search._performSearch;
  Search._performSearch = (query, ...rest) => Find.joined(query, plain(query, ...rest));
}
