"""Timed changes give everything at once, with revisions, and restore each frame's table."""

import gapless as gl
from gapless.changelog import Changes, Revisions

schema = gl.StreamSchema({"id": "string", "load": "int32"})
stream = "ins((a,1),6,20) stable(6) adj((a,1),6,20,30)"
frames = list(gl.frames_of(schema, gl.parse(stream, schema)))
reader = Revisions(schema)
for frame in frames:
    changes = Changes.of_frame(frame)
    print(changes.to_list(), "->", gl.format(reader.push(changes, frame.stable).elements()))
# [('+I', 6, 20, ('a', 1))] -> ins((a,1),6,20) stable(6)
# [('-U', 6, 20, ('a', 1)), ('+U', 6, 30, ('a', 1))] -> adj((a,1),6,20,30)
