"""The supervisor: brings what runs closer to what is desired.

reconciler.py        on each tick, what is missing is started and what is too much goes
failure_detector.py  when a silent or slow life is suspected
replacement.py       a killed replica's successor, and when the old one goes
placement.py         on which node
cutover.py           to another query, or another plan
adoption.py          a new supervisor takes over what runs
"""
