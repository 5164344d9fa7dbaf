// A page that is opened from a file may not start a Worker, and the search is one. Here it runs in a hidden frame,
// which has the same origin, so that both call each other directly.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super()
      this.waiting = []
      const frame = document.createElement("iframe")
      frame.hidden = true
      document.body.append(frame)
      this.inside = frame.contentWindow
      this.inside.postMessage = data => {
        const event = new MessageEvent("message", { data })
        this.dispatchEvent(event)
        this.onmessage?.(event)
      }
      // The search awaits what this returns.
      this.inside.importScripts = (...urls) =>
        urls.reduce((before, next) => before.then(() => this.load(next)), Promise.resolve())
      this.load(url).then(() => {
        const waiting = this.waiting
        this.waiting = null
        waiting.forEach(data => this.deliver(data))
      })
    }
    load(url) {
      return new Promise((resolve, reject) => {
        const script = this.inside.document.createElement("script")
        script.src = new URL(url, location).href
        script.onload = resolve
        script.onerror = reject
        this.inside.document.head.append(script)
      })
    }
    deliver(data) {
      this.inside.dispatchEvent(new this.inside.MessageEvent("message", { data }))
    }
    postMessage(data) {
      if (this.waiting) this.waiting.push(data)
      else this.deliver(data)
    }
    terminate() {
      this.inside.frameElement.remove()
    }
  }
}
