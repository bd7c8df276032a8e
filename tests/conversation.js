// What a page of Streamlit and its server say to each other, so that a test can wait until all that a person did has
// been answered and drawn, however late. Runs before the page's own scripts.
(() => {
  // Of the messages BackMsg, ClientState, ForwardMsg, ForwardMsgMetadata and RunIdentity, by streamlit/proto.
  const RERUN = 11, FRAGMENT = 5, IS_AUTOMATIC = 6;
  const METADATA = 2, BEGUN = 4, ENDED = 6, HEARTBEAT_ACK = 26, RUN = 6, FRAGMENTS = 2;
  const FOR_A_RERUN = 2;  // a run that ended because another follows
  const ECHO = new Uint8Array([0x88, 0x01, 0x01]);  // a heartbeat, which the server acknowledges in its turn
  const QUIET_LOOKS = 3;
  // The server forgets what it has not sent yet as a run begins, acknowledgements too: then another echo is sent.
  const LOST_AFTER_LOOKS = 20;
  // A fragment that is there no longer is never run: nothing was drawn for so many looks.
  const DROPPED_AFTER_LOOKS = 50;
  const IDLE = "[data-testid=stApp][data-test-script-state=notRunning][data-test-connection-state=CONNECTED]";
  const text = (bytes) => new TextDecoder().decode(bytes);

  // The fields of a message: for each number its values, numbers or bytes.
  const fields = (bytes) => {
    const found = new Map();
    let at = 0;
    const number = () => {
      let value = 0, factor = 1;
      for (;;) {
        const byte = bytes[at++];
        value += (byte & 0x7f) * factor;
        factor *= 128;
        if (byte < 0x80) return value;
      }
    };
    while (at < bytes.length) {
      const tag = number(), kind = tag % 8;
      let value = null;
      if (kind === 0) value = number();
      else {
        const length = { 1: 8, 5: 4 }[kind] ?? number();
        value = bytes.subarray(at, (at += length));
      }
      const key = Math.floor(tag / 8);
      found.set(key, [...(found.get(key) ?? []), value]);
    }
    return found;
  };
  const only = (message, key) => (message.get(key) ?? [])[0];

  class Conversation {
    constructor(socket) {
      this.socket = socket;
      this.asked = new Set();  // "" for the whole page, or a fragment: runs for a person's sake that have not begun
      this.isDrawing = true;  // until the first run has ended
      this.isRunning = false;  // also by itself, as fragments that look again every second do
      this.awaited = this.looks = 0;  // looks since the last echo that has not come back; looks at a page at rest
      socket?.addEventListener("message", (event) => this.hear(fields(new Uint8Array(event.data))));
    }

    say(message) {
      if (!message.has(RERUN)) return;
      const state = fields(only(message, RERUN));
      if (!only(state, IS_AUTOMATIC)) this.asked.add(text(only(state, FRAGMENT) ?? new Uint8Array()));
    }

    hear(message) {
      if (message.has(HEARTBEAT_ACK)) this.awaited = 0;
      if (message.has(BEGUN)) {
        const run = only(fields(only(message, METADATA)), RUN), fragments = fields(run).get(FRAGMENTS) ?? [];
        this.isRunning = true;
        if (!fragments.length) {
          this.asked.clear();
          this.isDrawing = true;
        }
        for (const fragment of fragments) if (this.asked.delete(text(fragment))) this.isDrawing = true;
      }
      if (message.has(ENDED) && only(message, ENDED) !== FOR_A_RERUN) this.isDrawing = this.isRunning = false;
    }

    // Whether all has been answered at several looks in a row, between which the server has answered, too.
    look() {
      if (this.socket !== null && this.socket.readyState !== WebSocket.OPEN) {
        window.conversation = unheard();  // the page opens another one, on which it may have nothing to say
        return false;
      }
      if (this.awaited > 0) {
        if (this.awaited++ >= LOST_AFTER_LOOKS) this.echo();
        return false;
      }
      const isStill = !this.isDrawing && (this.isRunning || document.querySelector(IDLE) !== null);
      this.looks = isStill ? this.looks + 1 : 0;
      if (this.looks >= (this.asked.size ? DROPPED_AFTER_LOOKS : QUIET_LOOKS)) {
        this.asked.clear();
        this.looks = 0;
        return true;
      }
      this.echo();
      return false;
    }

    echo() {
      if (this.socket === null) return;
      this.awaited = 1;
      this.socket.send(ECHO);
    }
  }

  // Where a test took the socket's place, or nothing was sent yet, what the page says must do.
  const unheard = () => Object.assign(new Conversation(null), { isDrawing: false });
  window.conversation = unheard();
  const send = WebSocket.prototype.send;
  WebSocket.prototype.send = function (data) {
    if (window.conversation.socket !== this) window.conversation = new Conversation(this);
    window.conversation.say(fields(new Uint8Array(data)));
    return send.call(this, data);
  };
})();
