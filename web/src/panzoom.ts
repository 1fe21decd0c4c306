// Panning and zooming a canvas: a drag pans, two fingers and the wheel (with Ctrl, or once it is enlarged) zoom.

import { enlarged, moved, type Extent, type View } from "./core/view.ts";

export function panZoom(node: HTMLElement, extent: () => Extent, view: () => View, change: (view: View) => void): void {
  const held = new Map<number, { x: number; y: number }>();
  let dragged = false;
  const place = (event: MouseEvent) => {
    const box = node.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  };
  node.addEventListener(
    "wheel",
    (event) => {
      if (!event.ctrlKey && !event.metaKey && view().k === 1) return;
      event.preventDefault();
      const unit = event.deltaMode === 1 ? 0.05 : event.deltaMode ? 1 : 0.002,
        { x, y } = place(event);
      change(enlarged(view(), 2 ** (-event.deltaY * unit * (event.ctrlKey ? 10 : 1)), x, y, extent()));
    },
    { passive: false },
  );
  node.addEventListener("pointerdown", (event) => {
    if (event.button) return;
    dragged = false;
    held.set(event.pointerId, place(event));
  });
  node.addEventListener("pointermove", (event) => {
    const before = held.get(event.pointerId);
    if (!before) return;
    const now = place(event),
      other = [...held].find(([id]) => id !== event.pointerId)?.[1];
    if (other) {
      const factor =
        Math.hypot(now.x - other.x, now.y - other.y) / (Math.hypot(before.x - other.x, before.y - other.y) || 1);
      change(enlarged(view(), factor, (now.x + other.x) / 2, (now.y + other.y) / 2, extent()));
    } else if (view().k > 1) {
      if (!dragged && Math.hypot(now.x - before.x, now.y - before.y) < 3) return; // a click may tremble
      if (!dragged) node.setPointerCapture(event.pointerId);
      change(moved(view(), now.x - before.x, now.y - before.y, extent()));
    } else return;
    dragged = true;
    held.set(event.pointerId, now);
  });
  for (const end of ["pointerup", "pointercancel", "pointerleave"] as const)
    node.addEventListener(end, (event) => held.delete(event.pointerId));
  node.addEventListener(
    "click",
    (event) => {
      if (dragged) event.stopImmediatePropagation(); // a drag chooses nothing
      dragged = false;
    },
    true,
  );
}
