"""What can be read: each text's contrast to what it stands on, as a browser computes it."""

from __future__ import annotations

from typing import Final

ENOUGH: Final = 4.5  #: WCAG 2.2, 1.4.3 (AA): the least contrast ratio of normal text

#: Of an element of a page: how many texts it shows, and those with a contrast ratio by WCAG that
#: is too low. The browser's own canvas mixes what is transparent. What is disabled is exempt there.
POOR: Final = """(panel, enough) => {
    const canvas = Object.assign(document.createElement('canvas'), { width: 1, height: 1 });
    const paint = canvas.getContext('2d', { willReadFrequently: true });
    const lay = (colour, alpha = 1) => {
        paint.globalAlpha = alpha;
        paint.fillStyle = colour;
        paint.fillRect(0, 0, 1, 1);
        return paint.getImageData(0, 0, 1, 1).data;
    };
    const luminance = ([r, g, b]) => {
        const [R, G, B] = [r, g, b].map((x) => x / 255).map(
            (x) => (x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4));
        return 0.2126 * R + 0.7152 * G + 0.0722 * B;
    };
    const ratio = (element, colour) => {
        const around = [];
        for (let e = element; e; e = e.parentElement) around.unshift(getComputedStyle(e));
        let ground = lay('white'), alpha = 1;
        for (const style of around) {
            ground = lay(style.backgroundColor);
            alpha *= Number(style.opacity);
        }
        const [a, b] = [luminance(ground), luminance(lay(colour, alpha))];
        return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    };
    const found = [];
    const look = (element, colour, text) => found.push(
        { text: text.trim(), name: element.className, ratio: ratio(element, colour) });
    const texts = document.createTreeWalker(panel, NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) {
        const element = texts.currentNode.parentElement, text = texts.currentNode.data;
        if (!text.trim() || !element.checkVisibility() || element.matches(':disabled *')) continue;
        look(element, getComputedStyle(element).color, text);
    }
    for (const input of panel.querySelectorAll('input[placeholder], textarea')) {
        if (!input.checkVisibility() || input.matches(':disabled')) continue;
        look(input, getComputedStyle(input).color, input.value || 'typed');
        look(input, getComputedStyle(input, '::placeholder').color, input.placeholder);
    }
    return { seen: found.length, poor: found.filter((one) => !(one.ratio >= enough)) };
}"""

#: Of a picture of a timeline: each text's contrast to its grounds, its pixels, and where it is.
TEXTS: Final = """(svg) => {
    const paint = Object.assign(document.createElementNS('http://www.w3.org/1999/xhtml', 'canvas'),
            { width: 1, height: 1 })
        .getContext('2d', { willReadFrequently: true });
    const luminance = (...colours) => { // of one laid on the other
        for (const colour of ['white', ...colours]) {
            paint.fillStyle = colour;
            paint.fillRect(0, 0, 1, 1);
        }
        const [R, G, B] = [...paint.getImageData(0, 0, 1, 1).data].map((x) => x / 255).map(
            (x) => (x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4));
        return 0.2126 * R + 0.7152 * G + 0.0722 * B;
    };
    const all = svg.getBoundingClientRect();
    const fill = (one) => getComputedStyle(one).fill;
    const [page, band] = ['.page', '.band'].map((one) => fill(svg.querySelector(one)));
    return [...svg.querySelectorAll('text')].map((text) => {
        const box = text.getBoundingClientRect();
        const grounds = text.classList.contains('f') ? [page] : [page, band]; // faint: never on a band
        const ratio = Math.min(...grounds.map((ground) => {
            const [own, under] = [luminance(ground, fill(text)), luminance(ground)];
            return (Math.max(own, under) + 0.05) / (Math.min(own, under) + 0.05);
        }));
        const inside = box.left >= all.left && box.right <= all.right && box.bottom <= all.bottom;
        const size = parseFloat(getComputedStyle(text).fontSize) * all.width
            / svg.viewBox.baseVal.width;
        return { text: text.textContent, ratio, size, inside, left: box.left, right: box.right,
                 top: box.top, bottom: box.bottom };
    });
}"""
